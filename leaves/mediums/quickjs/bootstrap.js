// Runs once, before any code of an entity, in the memory image that every sandbox begins with. It keeps for itself all
// that it needs of the language, so that nothing an entity does to a prototype or a global reaches what stands here:
// what crosses to the host is text made of strings alone, and what comes back is parsed into arrays, read by index.
// After the first run nothing here may iterate, spread or destructure an array, since entities can redefine how.
(function (send, show) {
  'use strict';
  const world = globalThis;
  const { stringify, parse } = JSON;
  const { defineProperty, getPrototypeOf, keys, freeze } = Object;
  const { isArray } = Array;
  const { isFinite: finite } = Number;
  const { imul } = Math;
  const objectPrototype = Object.prototype;
  const [NativeError, NativeReferenceError] = [Error, ReferenceError];
  const [NativeMap, NativeSet, NativeDate, NativeRegExp, NativePromise] = [Map, Set, Date, RegExp, Promise];
  const NativeBuffer = ArrayBuffer;
  const NativeView = getPrototypeOf(Uint8Array);
  const text = String;
  const uncurry = Function.prototype.bind.bind(Function.prototype.call);
  const slice = uncurry(String.prototype.slice);
  const eachOfMap = uncurry(Map.prototype.forEach);
  const eachOfSet = uncurry(Set.prototype.forEach);
  const isoDate = uncurry(Date.prototype.toISOString);
  const regExpText = uncurry(RegExp.prototype.toString);
  const functionText = uncurry(Function.prototype.toString);

  // ---- showing values: what print and the value of a turn look like where JSON cannot hold them
  const DEPTH = 8;
  const ITEMS = 500;
  const CHARACTERS = 200000;

  function inspect(value, left, above) {
    switch (typeof value) {
      case 'string': return stringify(value);
      case 'bigint': return text(value) + 'n';
      case 'function': return slice(functionText(value), 0, 5) === 'class'
        ? '[class ' + text(value.name || 'anonymous') + ']' : '[Function: ' + text(value.name || 'anonymous') + ']';
      case 'object': break;
      default: return text(value);
    }
    if (value === null) return 'null';
    if (value instanceof NativeError) return text(value.name) + ': ' + text(value.message);
    if (value instanceof NativeDate) return isoDate(value);
    if (value instanceof NativeRegExp) return regExpText(value);
    if (value instanceof NativePromise) return '[Promise]';
    if (value instanceof NativeBuffer) return '[ArrayBuffer: ' + value.byteLength + ' bytes]';
    for (let at = above; at !== null; at = at.above) if (at.value === value) return '[Circular]';
    const inner = { __proto__: null, value, above };
    const room = { __proto__: null, out: '', count: 0, left: left - 1 };
    const add = (piece) => {
      if (room.out.length > CHARACTERS) return;
      room.out += (room.count++ ? ', ' : '') + piece();
    };
    if (isArray(value) || value instanceof NativeView) {
      if (left <= 0) return '[Array]';
      const length = value.length;
      for (let n = 0; n < length && n < ITEMS; n++) add(() => inspect(value[n], left - 1, inner));
      if (length > ITEMS) add(() => '... ' + (length - ITEMS) + ' more');
      return (isArray(value) ? '' : text(value.constructor.name) + ' ') + '[' + room.out + ']';
    }
    if (left <= 0) return '[Object]';
    if (value instanceof NativeMap) {
      eachOfMap(value, (item, key) => add(() => inspect(key, left - 1, inner) + ' => ' + inspect(item, left - 1, inner)));
      return 'Map {' + room.out + '}';
    }
    if (value instanceof NativeSet) {
      eachOfSet(value, (item) => add(() => inspect(item, left - 1, inner)));
      return 'Set {' + room.out + '}';
    }
    const names = keys(value);
    for (let n = 0; n < names.length && n < ITEMS; n++) {
      add(() => label(names[n]) + ': ' + inspect(value[names[n]], left - 1, inner));
    }
    if (names.length > ITEMS) add(() => '... ' + (names.length - ITEMS) + ' more');
    return kind(value) + '{' + room.out + '}';
  }

  function label(name) {
    return /^[A-Za-z_$][\w$]*$/.test(name) ? name : stringify(name);
  }

  function kind(value) {
    const prototype = getPrototypeOf(value);
    if (prototype === null || prototype === objectPrototype) return '';
    const maker = prototype.constructor;
    return typeof maker === 'function' && maker.name ? text(maker.name) + ' ' : '';
  }

  function shown(value) {
    if (typeof value === 'string') return value;
    try {
      return inspect(value, DEPTH, null);
    } catch {
      return '[a value that cannot be shown]';
    }
  }

  // ---- gates: accessors that cannot be redefined; what an entity puts in their place lasts until its turn is over
  const installed = { __proto__: null };
  let surface = { __proto__: null };
  let shadows = { __proto__: null };
  let room = 0; // how many characters of what is printed, and of a value, are kept

  function install(name) {
    if (name in installed) return;
    installed[name] = true;
    const get = () => {
      if (name in shadows) return shadows[name];
      if (name in surface) return surface[name];
      throw new NativeReferenceError('gate not available: ' + name);
    };
    const set = (value) => { shadows[name] = value; };
    try {
      defineProperty(world, name, { __proto__: null, configurable: false, enumerable: false, get, set });
    } catch {
      installed[name] = false; // the entity had a variable of this name first; see `begin`
    }
  }

  function gate(name) {
    const enter = (args) => {
      let count = args.length;
      while (count > 0 && args[count - 1] === undefined) count--;
      let sent = '';
      for (let n = 0; n < count; n++) sent += (n ? ',' : '[') + (stringify(args[n]) ?? 'null');
      const reply = parse(send(name, count ? sent + ']' : '[]'));
      if (reply[0] === 0) return reply[1];
      if (reply[0] === 1) {
        const error = new NativeError(reply[2]);
        defineProperty(error, 'name', { __proto__: null, configurable: true, writable: true, value: reply[1] });
        throw error;
      }
      for (;;); // the turn is over: the host interrupts this loop, and nothing can catch that
    };
    const call = (...args) => enter(args);
    defineProperty(call, 'name', { __proto__: null, value: name });
    return freeze(call);
  }

  function print(...values) {
    let line = '';
    for (let n = 0; n < values.length; n++) line += (n ? ' ' : '') + shown(values[n]);
    show(stringify(slice(line, 0, room + 1))); // one more than is kept, so that the host sees that it was cut
  }

  const console = { __proto__: objectPrototype };
  for (const name of ['log', 'info', 'warn', 'error', 'debug', 'trace', 'dir', 'table']) console[name] = print;
  freeze(console);
  freeze(print);

  function furnish(gates) {
    const next = { __proto__: null, print, console };
    for (let n = 0; n < gates.length; n++) {
      const path = gates[n][0];
      const call = gate(gates[n][1]);
      if (path.length === 1) { next[path[0]] = call; continue; }
      let at = next;
      for (let m = 0; m < path.length - 1; m++) at = at[path[m]] ?? (at[path[m]] = { __proto__: null });
      at[path[path.length - 1]] = call;
    }
    settle(next);
    surface = next;
  }

  function settle(space) {
    const names = keys(space);
    for (let n = 0; n < names.length; n++) {
      if (typeof space[names[n]] === 'object' && space[names[n]] !== console) settle(space[names[n]]);
    }
    freeze(space);
  }

  // ---- chance: sfc32, seeded anew every turn
  let [a, b, c, d] = [1, 2, 3, 4];
  defineProperty(Math, 'random', {
    __proto__: null, configurable: true, writable: true, enumerable: false,
    value: function random() {
      const t = (a + b + d) | 0;
      d = (d + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = ((c << 21) | (c >>> 11)) + t | 0;
      return (t >>> 0) / 4294967296;
    },
  });

  // ---- what the host calls; each takes and gives text
  function begin(order) {
    const orders = parse(order);
    const seed = orders[0];
    const gates = orders[2];
    room = orders[1];
    a = seed[0]; b = seed[1]; c = seed[2]; d = 1;
    if (gates !== null) furnish(gates);
    shadows = { __proto__: null };
    const names = keys(surface);
    for (let n = 0; n < names.length; n++) {
      install(names[n]);
      if (!installed[names[n]]) world[names[n]] = surface[names[n]];
    }
  }

  // A value that JSON holds exactly; anything else is shown instead.
  function exact(value, left) {
    switch (typeof value) {
      case 'string': case 'boolean': return true;
      case 'number': return finite(value);
      case 'object': break;
      default: return false;
    }
    if (value === null) return true;
    if (left <= 0) return false;
    const prototype = getPrototypeOf(value);
    if (isArray(value)) {
      for (let n = 0; n < value.length; n++) if (!exact(value[n], left - 1)) return false;
      return true;
    }
    if (prototype !== objectPrototype && prototype !== null) return false;
    const names = keys(value);
    for (let n = 0; n < names.length; n++) if (!exact(value[names[n]], left - 1)) return false;
    return true;
  }

  function finish(value) {
    if (value === undefined) return '[0]';
    try {
      if (!(typeof value === 'string' && value.length > room) && exact(value, 64)) {
        const sent = stringify(value);
        if (typeof sent === 'string') return '[1,' + sent + ']';
      }
    } catch { /* a getter threw: it is shown instead */ }
    return '[2,' + stringify(slice(shown(value), 0, room + 1)) + ']';
  }

  function explain(thrown) {
    let name = 'Error';
    let message = 'an error that cannot be shown';
    let stack = '';
    try {
      if (thrown instanceof NativeError) {
        name = text(thrown.name);
        message = text(thrown.message);
        stack = text(thrown.stack);
      } else {
        message = shown(thrown);
      }
    } catch { /* it stays what cannot be shown */ }
    return '[' + stringify(slice(name, 0, 200)) + ',' + stringify(slice(message, 0, 10000)) + ','
      + stringify(slice(stack, 0, 4000)) + ']';
  }

  return { __proto__: null, begin, finish, explain };
})

// The page of a conversation. What was said comes from the server by its position, and is shown as text, never as markup.

import { rich } from "./text.js";

const find = (id) => document.getElementById(id);
const said = find("said"), state = find("state"), text = find("text"), entrance = find("entrance"), form = find("say");

const random = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

const kept = {
  get(key, other) { try { return JSON.parse(localStorage.getItem("coven." + key)) ?? other; } catch { return other; } },
  set(key, value) {
    try {
      if (value === undefined) localStorage.removeItem("coven." + key);
      else localStorage.setItem("coven." + key, JSON.stringify(value));
    } catch { /* only for this visit */ }
  },
};

let conversation = kept.get("conversation", null) ?? random();
let outbox = kept.get(`outbox.${conversation}`, []); // what was not confirmed yet; it is sent again under the same id
let others = kept.get("conversations", []); // those of this browser, the newest first
let place = 0; // the position up to which this page shows the conversation
let socket = null, wait = 500, timer = null;
const streams = new Map(), ended = new Set(), mine = new Map(), questions = new Map();

const keepOutbox = () => kept.set(`outbox.${conversation}`, outbox.length > 0 ? outbox : undefined);

kept.set("conversation", conversation);
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  kept.set("token", given);
  history.replaceState(null, "", location.pathname);
}

function connect() {
  clearTimeout(timer);
  if (socket !== null) return;
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/socket`);
  socket = opened;
  opened.onopen = () =>
    opened.send(JSON.stringify({ type: "hello", conversation, after: place, token: kept.get("token", "") }));
  opened.onmessage = (event) => { if (socket === opened) take(JSON.parse(event.data)); };
  opened.onclose = (event) => {
    if (socket !== opened) return;
    socket = null;
    forgetStreams();
    if (event.code === 4401) { ask(); return; }
    state.textContent = "not connected, trying again …";
    timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, 10_000);
  };
}

function ask() {
  state.textContent = "a token is needed";
  form.hidden = true;
  entrance.hidden = false;
  find("token").focus();
}

function take(message) {
  switch (message.type) {
    case "welcome":
      wait = 500;
      state.textContent = "connected";
      document.title = find("title").textContent = message.title;
      for (const each of outbox) transmit(each);
      break;
    case "said":
      place = message.position;
      show(message);
      break;
    case "answered":
      place = message.position;
      confirm((each) => each.type === "answer" && each.question === message.question);
      settle(message.question, message.text);
      break;
    case "active":
      place = message.position;
      act(message);
      break;
    case "piece":
      grow(message);
      break;
    case "forked":
      branch(outbox.find((each) => each.id === message.id), message);
      break;
    case "refused":
      refuse(message);
      break;
  }
}

function element(name, className, content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

const isAtEnd = () => said.scrollHeight - said.scrollTop - said.clientHeight < 80;

function put(item, before = null) {
  const atEnd = isAtEnd();
  // what waits to be sent stays last
  const waiting = item.classList.contains("waiting") ? null : said.querySelector(":scope > .waiting");
  said.insertBefore(item, before ?? waiting);
  if (atEnd) said.scrollTop = said.scrollHeight;
}

function show(message) {
  if (message.mine !== undefined) {
    confirm((each) => each.id === message.mine);
    mine.get(message.mine)?.remove();
    mine.delete(message.mine);
    remember(conversation, message.text);
    bodies.delete(message.mine);
    put(own(message));
    return;
  }
  if (message.question !== undefined) { put(card(message)); return; }
  if (message.prompt !== undefined) {
    ended.add(message.prompt);
    forgetStreams(message.prompt);
  }
  finishWork();
  const item = bubble("theirs", message.sender, "");
  item.querySelector(".text").append(...(message.text.length < RICH_AT_ALL ? rich(message.text) : [message.text]));
  put(withFiles(item, message.files));
}

function bubble(className, sender, content) {
  const item = element("li", className);
  item.append(element("p", "who", sender), element("div", "text", content));
  return item;
}

// What the agent does on the way to its answer: one fold for each answer, and in it one for each thought and call.
let work = null;
const calls = new Map();

function act({ activity, text: content, tool_name: name, call, stream }) {
  if (activity === "thought") { think(stream, content); return; }
  let made = calls.get(call);
  if (made === undefined) { // an outcome may come before its call
    made = addWork("call", name ?? "", "");
    calls.set(call, made);
  }
  if (activity === "call") {
    made.name.textContent = name;
    made.gist.textContent = gist(content);
    made.body.prepend(element("pre", "asked", readable(content)));
  } else {
    made.item.classList.remove("open");
    made.item.classList.add(activity);
    made.body.append(element("pre", "gave", readable(content)));
    if (activity === "fault" && work !== null) work.failed += 1;
  }
  tellWork();
}

// A thought that is whole; it replaces what of it was shown while it came.
function think(stream, content) {
  const shown = streams.get(stream);
  if (stream !== undefined) ended.add(stream);
  streams.delete(stream);
  if (shown === undefined || shown.next === -1) { addWork("thought", "Thought", content); return; }
  shown.made.item.classList.remove("open");
  shown.made.gist.textContent = shown.made.body.firstChild.textContent = content;
  tellWork();
}

// The names and values of a JSON object; none where the text is none, as when it was cut.
function named(content) {
  try {
    const found = JSON.parse(content);
    if (found === null || typeof found !== "object" || Array.isArray(found)) return null;
    return Object.entries(found).map(([name, each]) => [name, typeof each === "string" ? each : JSON.stringify(each)]);
  } catch { return null; }
}

const gist = (content) => named(content)?.map(([, value]) => value).join(" ") ?? content;
const readable = (content) => named(content)?.map(([name, value]) => `${name}: ${value}`).join("\n") || content;

function addWork(className, name, content) {
  if (work === null) {
    const item = element("li", "work"), folded = element("details");
    work = { item, line: element("summary"), thoughts: 0, calls: 0, failed: 0, all: [] };
    item.setAttribute("aria-live", "off");
    folded.append(work.line);
    item.append(folded);
    put(item, said.querySelector(":scope > .writing"));
    work.inside = folded;
  }
  const item = element("details", className), line = element("summary");
  const made = { item, name: element("span", "name", name), gist: element("span", "gist"), body: element("div") };
  if (className === "call") {
    item.classList.add("open");
    work.calls += 1;
  } else {
    work.thoughts += 1;
    made.gist.textContent = content;
    made.body.append(element("p", "text", content));
  }
  line.append(made.name, " ", made.gist);
  item.append(line, made.body);
  const atEnd = isAtEnd();
  work.inside.append(item);
  work.all.push(made);
  tellWork();
  if (atEnd) said.scrollTop = said.scrollHeight;
  return made;
}

function tellWork(finished = false) {
  if (work === null) return;
  const many = (count, one) => (count === 0 ? [] : [`${count} ${one}${count === 1 ? "" : "s"}`]);
  const counted = [...many(work.thoughts, "thought"), ...many(work.calls, "tool call")];
  if (work.failed > 0) counted.push(`${work.failed} failed`);
  const { name, gist } = work.all.at(-1);
  work.item.classList.toggle("busy", !finished);
  if (finished) for (const each of work.inside.querySelectorAll(".open")) each.classList.remove("open");
  work.line.textContent = finished ? counted.join(", ") : `${name.textContent} ${gist.textContent}`.slice(0, 200);
}

// A thought that will not come whole.
function forgetThought(made, its) {
  if (!its.all.includes(made)) return;
  its.all = its.all.filter((each) => each !== made);
  its.thoughts -= 1;
  made.item.remove();
  if (its.all.length > 0) {
    if (its === work) tellWork();
    return;
  }
  its.item.remove();
  if (its === work) work = null;
}

function finishWork() {
  tellWork(true);
  work = null;
}

// What a person said; from there the conversation can go on in another way.
function own({ sender, text: content, files }) {
  const item = withFiles(bubble("mine", sender, content), files), back = element("button", "", "↶");
  back.type = "button";
  back.title = "Go on from before this message";
  back.setAttribute("aria-label", back.title);
  back.onclick = () => {
    const all = [...said.querySelectorAll(":scope > .mine:not(.waiting)")];
    const alone = content.replace(/(^|\n\n)\[attached: [^]*$/, ""); // files are to be chosen again
    text.value = `/fork ${all.length - all.indexOf(item)} ${alone}`;
    grown();
    text.focus();
  };
  item.querySelector(".who").append(back);
  return item;
}

const RICH_WHILE_WRITTEN = 10_000; // characters: a longer text is not read again with every piece, but at its end
const RICH_AT_ALL = 100_000; // and one that would be too many elements for a browser stays plain

// A text or a thought that is being written. One with a hole in it is not shown: it will come whole.
function grow({ stream, index, text: piece, prompt, thought = false }) {
  if (ended.has(stream) || (prompt !== null && ended.has(prompt))) return;
  let shown = streams.get(stream);
  if (shown === undefined) {
    if (index !== 0) return;
    shown = { next: 0, prompt, text: "", ...(thought ? beginThought() : beginText()) };
    streams.set(stream, shown);
  }
  if (index !== shown.next) {
    shown.forget();
    shown.next = -1;
    return;
  }
  shown.next += 1;
  const atEnd = isAtEnd();
  shown.text += piece;
  const body = (shown.made?.body ?? shown.item).querySelector(".text");
  if (thought) {
    body.append(piece);
    shown.made.gist.textContent = shown.text.slice(0, 200);
    tellWork();
  } else if (shown.text.length < RICH_WHILE_WRITTEN) body.replaceChildren(...rich(shown.text));
  else body.append(piece);
  if (atEnd) said.scrollTop = said.scrollHeight;
}

function beginText() {
  const item = bubble("theirs writing", "", "");
  item.setAttribute("aria-live", "off");
  item.setAttribute("aria-busy", "true");
  put(item);
  return { item, forget: () => item.remove() };
}

function beginThought() {
  const made = addWork("thought", "Thought", ""), its = work;
  made.item.classList.add("open");
  return { made, forget: () => forgetThought(made, its) };
}

function forgetStreams(prompt) {
  for (const [stream, shown] of streams) {
    if (prompt === undefined || shown.prompt === prompt) {
      shown.forget();
      streams.delete(stream);
    }
  }
}

function card({ sender, text: asked, question, choices = [] }) {
  const item = bubble("question", sender, asked);
  const form = element("form", "choices");
  const answer = (content) => {
    if (content.trim() === "") return;
    for (const each of form.elements) each.disabled = true;
    send({ type: "answer", id: random(), question, text: content });
  };
  if (choices.length > 0) {
    for (const choice of choices) {
      const button = element("button", "", choice);
      button.type = "button";
      button.onclick = () => answer(choice);
      form.append(button);
    }
  } else {
    const input = element("input");
    input.setAttribute("aria-label", "Your answer");
    input.maxLength = 50_000;
    form.append(input, element("button", "", "Answer"));
    form.onsubmit = () => answer(input.value);
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  item.append(form);
  questions.set(question, { item, form });
  return item;
}

function settle(question, answer) {
  const asked = questions.get(question);
  if (asked === undefined) return;
  asked.form.remove();
  asked.item.append(element("p", "who", `answered: ${answer}`));
  questions.delete(question);
}

function refuse({ id, reason }) {
  const refused = outbox.find((each) => each.id === id);
  confirm((each) => each.id === id);
  const asked = refused?.type === "answer" ? questions.get(refused.question) : undefined;
  for (const each of asked?.form.elements ?? []) each.disabled = false;
  if (refused?.type === "fork") put(element("li", "refused", `not forked: ${reason}`));
  (mine.get(id) ?? asked?.item)?.append(element("p", "refused", `not sent: ${reason}`));
}

function send(message) {
  outbox.push(message);
  keepOutbox();
  if (message.type === "say") awaiting(message);
  if (socket?.readyState === WebSocket.OPEN && state.textContent === "connected") transmit(message);
}

// The files of a message go before it, in pieces. They are kept by this page alone, until the message is confirmed.
const bodies = new Map(), PIECE = 96 * 1024, MOST = 8 * 1024 * 1024, MOST_IN_ALL = 2 * MOST, MOST_FILES = 10;

function transmit(message) {
  for (const { file, bytes } of bodies.get(message.id) ?? []) {
    for (let at = 0; at < bytes.length; at += PIECE) {
      const data = btoa(Array.from(bytes.subarray(at, at + PIECE), (byte) => String.fromCharCode(byte)).join(""));
      socket.send(JSON.stringify({ type: "part", file, data }));
    }
  }
  socket.send(JSON.stringify(message));
}

let chosen = [];

async function choose(files) {
  for (const each of files) {
    const all = chosen.reduce((sum, { bytes }) => sum + bytes.length, each.size);
    if (each.size > MOST || all > MOST_IN_ALL || chosen.length >= MOST_FILES) {
      put(element("li", "refused", `not attached: ${each.name}; at most 8 MiB a file, 16 MiB and 10 files a message`));
      continue;
    }
    const bytes = new Uint8Array(await each.arrayBuffer());
    chosen.push({ file: random(), name: each.name, media_type: each.type.slice(0, 200), bytes });
  }
  showChosen();
}

function showChosen() {
  find("chosen").hidden = chosen.length === 0;
  find("chosen").replaceChildren(...chosen.map((each) => {
    const item = element("li", "", each.name), away = element("button", "", "×");
    away.type = "button";
    away.setAttribute("aria-label", `Leave out ${each.name}`);
    away.onclick = () => { chosen = chosen.filter((other) => other !== each); showChosen(); };
    item.append(away);
    return item;
  }));
}

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// Files of a message: images are shown, and each can be saved. None is ever opened as a page of ours.
function withFiles(item, files = []) {
  for (const { name, media_type: type, body } of files) {
    const bytes = Uint8Array.from(atob(body), (character) => character.charCodeAt(0)), seen = IMAGES.includes(type);
    const link = element("a", "file", seen ? "" : `${name} (${bytes.length.toLocaleString("en")} bytes)`);
    link.href = URL.createObjectURL(new Blob([bytes], { type: seen ? type : "application/octet-stream" }));
    link.download = name;
    if (seen) {
      const image = element("img");
      image.src = link.href;
      image.alt = name;
      link.append(image);
    }
    item.append(link);
  }
  return item;
}

function awaiting(message) {
  const item = bubble("mine waiting", "", [message.text, ...(message.files ?? []).map((each) => each.name)].join("\n"));
  mine.set(message.id, item);
  put(item);
}

function confirm(which) {
  outbox = outbox.filter((each) => !which(each));
  keepOutbox();
}

function grown() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight + 2}px`;
}

form.onsubmit = (event) => {
  event.preventDefault();
  const typed = text.value.trim(), fork = /^\/fork(?:\s+(\d{1,4})(?=\s|$))?(?:\s+(\S[^]*))?$/.exec(typed);
  if (typed === "" && chosen.length === 0) return;
  if (typed === "/reset") { go(random()); return; }
  if (fork !== null) {
    send({ type: "fork", id: random(), into: random(), back: Number(fork[1] ?? 0), text: fork[2] ?? null });
  } else {
    const message = { type: "say", id: random(), text: text.value };
    if (chosen.length > 0) {
      bodies.set(message.id, chosen);
      message.files = chosen.map(({ bytes, ...each }) => ({ ...each, size: bytes.length }));
      chosen = [];
      showChosen();
    }
    send(message);
  }
  text.value = "";
  grown();
  said.scrollTop = said.scrollHeight;
};
text.oninput = grown;
text.onpaste = (event) => {
  if (event.clipboardData.files.length === 0) return;
  event.preventDefault();
  choose([...event.clipboardData.files]);
};
find("attach").onclick = () => find("files").click();
find("files").onchange = (event) => {
  choose([...event.target.files]);
  event.target.value = "";
};
text.onkeydown = (event) => {
  const phone = matchMedia("(pointer: coarse)").matches;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !phone) {
    event.preventDefault();
    form.requestSubmit();
  }
};
entrance.onsubmit = (event) => {
  event.preventDefault();
  kept.set("token", find("token").value);
  entrance.hidden = true;
  form.hidden = false;
  connect();
};
// The conversations of this browser: one that has a message can be found again.
function remember(id, title) {
  if (others.some((each) => each.id === id)) return;
  others = [{ id, title: title.slice(0, 60) }, ...others].slice(0, 50);
  kept.set("conversations", others);
  list();
}

function branch(asked, { id, into }) {
  remember(into, `↳ ${asked?.text ?? others.find((each) => each.id === conversation)?.title ?? ""}`);
  confirm((each) => each.id === id);
  go(into);
}

function list() {
  const here = others.some((each) => each.id === conversation) ? [] : [{ id: conversation, title: "new" }];
  const shown = [...here, ...others];
  find("others").hidden = shown.length < 2;
  find("others").replaceChildren(...shown.map(({ id, title }) => new Option(title, id, false, id === conversation)));
}

function go(id) {
  kept.set("conversation", id);
  location.reload();
}

find("others").onchange = (event) => go(event.target.value);
find("new").onclick = () => go(random());
list();
for (const event of ["online", "pageshow"]) addEventListener(event, connect);
document.addEventListener("visibilitychange", () => { if (!document.hidden) connect(); });
for (const each of outbox) if (each.type === "say") awaiting(each);
connect();

// What agents write often has a little Markdown in it. All of the text stays as it is, line by line; code, emphasis, headings
// and links get elements of their own, made as elements: nothing that anybody writes is ever read as markup.

const FENCED = /^(`{3,}|~{3,})[^\n`]*\n([^]*?)(?:\n?^\1[`~]*[ \t]*$|$(?![^]))/gm;
const INLINE = new RegExp([
  /(?<!`)(?<ticks>`{1,3})(?<code>[^`\n](?:[^\n]*?[^`\n])?)\k<ticks>(?!`)/,
  /\*\*(?<strong>[^\s*](?:[^*\n]*[^\s*])?)\*\*/,
  /^#{1,6} +(?<heading>[^\n]+)$/,
  /\[(?<label>[^\]\n]{1,500})\]\((?<target>https?:\/\/[^\s)]+)\)/,
  /(?<link>https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]*])/,
].map((each) => each.source).join("|"), "gm");

function element(name, content) {
  const made = document.createElement(name);
  made.textContent = content;
  return made;
}

function link(label, target) {
  const disguised = label !== target && /:\/\/|www\./i.test(label); // it says that it leads somewhere, which may not be so
  const made = element("a", disguised ? `${label} (${target})` : label);
  made.href = target;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

function* inline(text) {
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const { code, strong, heading, label, target, link: bare } = found.groups;
    if (found.index > end) yield text.slice(end, found.index);
    if (code !== undefined) yield element("code", code);
    else if (label !== undefined) yield link(label, target);
    else if (bare !== undefined) yield link(bare, bare);
    else yield element("strong", strong ?? heading);
    end = found.index + found[0].length;
  }
  if (end < text.length) yield text.slice(end);
}

export function* rich(text) {
  let end = 0;
  for (const found of text.matchAll(FENCED)) {
    yield* inline(text.slice(end, found.index).replace(/\n$/, ""));
    yield element("pre", found[2]);
    end = found.index + found[0].length;
    if (text[end] === "\n") end += 1;
  }
  yield* inline(text.slice(end));
}

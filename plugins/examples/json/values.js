// What there is to do with JSON values; plain JavaScript.

const MAX_DEPTH = 200; // values within each other

const isObject = (value) => typeof value === 'object' && value !== null;

const kind = (value) => (Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value);

const escape = (name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1');

const unescape = (name) => name.replaceAll('~1', '/').replaceAll('~0', '~');

// The value at a JSON pointer.
export function get(value, pointer) {
  if (pointer !== '' && !pointer.startsWith('/')) throw 'a JSON pointer is empty or begins with `/`';
  let at = value;
  const passed = [];
  for (const name of pointer.split('/').slice(1).map(unescape)) {
    const isIndex = !Array.isArray(at) || /^(0|[1-9]\d*)$/.test(name);
    if (!isObject(at) || !isIndex || !Object.hasOwn(at, name)) {
      const there = isObject(at) ? Object.keys(at).slice(0, 20).map((key) => `\`${key}\``).join(', ') : '';
      throw `\`/${passed.join('/')}\` is ${kind(at)} without \`${name}\`${there && `; it has ${there}`}`;
    }
    at = at[name];
    passed.push(escape(name));
  }
  return at;
}

// In what two values differ, at most so many times.
export function changes(before, after, limit) {
  const found = [];
  compare(before, after, '', 0, (change) => {
    found.push(change);
    return found.length < limit;
  });
  return found.slice(0, limit);
}

// Tells every change, until it is not wanted any more.
function compare(before, after, pointer, depth, tell) {
  if (depth > MAX_DEPTH) throw `more than ${MAX_DEPTH} values within each other`;
  if (!isObject(before) || !isObject(after) || kind(before) !== kind(after)) {
    if (Object.is(before, after) || before === after) return true;
    return tell({ tag: 'replaced', val: { pointer, before: text(before), after: text(after) } });
  }
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const at = `${pointer}/${escape(name)}`;
    const [was, is] = [Object.hasOwn(before, name), Object.hasOwn(after, name)];
    const goesOn =
      was && is
        ? compare(before[name], after[name], at, depth + 1, tell)
        : tell({ tag: is ? 'added' : 'removed', val: { pointer: at, value: text((is ? after : before)[name]) } });
    if (!goesOn) return false;
  }
  return true;
}

const text = (value) => JSON.stringify(value);

// An array of objects as a table in Markdown.
export function table(rows, columns) {
  if (!Array.isArray(rows) || !rows.every((row) => kind(row) === 'object')) throw 'expected an array of objects';
  const names = columns ?? [...new Set(rows.flatMap(Object.keys))];
  if (names.length === 0) throw 'there are no columns';
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const body = rows.map((row) => line(names.map((name) => cell(Object.hasOwn(row, name) ? row[name] : null))));
  return [line(names.map(cell)), line(names.map(() => '---')), ...body].join('\n');
}

function cell(value) {
  const shown = value === null ? '' : typeof value === 'string' ? value : text(value);
  return shown.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replace(/\s*\n\s*/g, ' ');
}

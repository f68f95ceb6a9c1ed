// The tools of `json`: the interface of that name in wit/world.wit.

import { readText } from './files.js';
import { changes, get, table } from './values.js';

const read = ({ tag, val }) => {
  const text = tag === 'file' ? readText(val) : val;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw `no JSON${tag === 'file' ? ` in \`${val}\`` : ''}: ${error.message}`;
  }
};

export const json = {
  get: (source, pointer) => JSON.stringify(get(read(source), pointer)),
  changes: (before, after, limit) => changes(read(before), read(after), limit ?? 100),
  table: (source, columns) => table(read(source), columns),
};

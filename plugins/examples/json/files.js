// Reads files through WASI, where there is no `node:fs`. To be copied by whoever needs it.

import environment from 'wasi:cli/environment@0.2.12';
import preopens from 'wasi:filesystem/preopens@0.2.12';

const MAX = 16 * 2 ** 20; // bytes of a file
const AT_ONCE = 64 * 2 ** 10; // what haft gives in one read

const REASONS = {
  'is-directory': 'it is a folder',
  'no-entry': 'no such file',
  'not-permitted': 'it is not granted',
};

// The text of a file in one of the granted folders; of two that are granted the inner one counts. A
// relative path begins in the workspace.
export function readText(path) {
  try {
    const file = open(path);
    const bytes = readAll(file);
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw `cannot read \`${path}\`: ${REASONS[error] ?? error?.message ?? error}`;
  }
}

function open(path) {
  const whole = path.startsWith('/') ? path : `${environment.initialCwd() ?? ''}/${path}`;
  const granted = preopens.getDirectories().map(([folder, name]) => ({ folder, below: below(whole, name) }));
  const found = granted.filter(({ below }) => below !== null).sort((a, b) => a.below.length - b.below.length)[0];
  if (!found) throw 'no-entry';
  return found.folder.openAt({ symlinkFollow: true }, found.below, {}, { read: true });
}

// A path as seen from a folder, if it is below it.
function below(path, folder) {
  const start = folder.endsWith('/') ? folder : `${folder}/`;
  return path.startsWith(start) ? path.slice(start.length) : null;
}

function readAll(file) {
  const chunks = [];
  for (let size = 0; ; ) {
    const [chunk, isEnd] = file.read(AT_ONCE, size);
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX) throw `it has more than ${MAX / 2 ** 20} MiB`;
    if (isEnd || chunk.length === 0) return concatenate(chunks, size);
  }
}

function concatenate(chunks, size) {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

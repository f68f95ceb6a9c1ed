// What a plugin may expect of JavaScript and QuickJS does not bring. Made anew by every build.

import stderr from 'wasi:cli/stderr@0.2.12';
import random from 'wasi:random/random@0.2.12';

const CHUNK = 4096; // what WASI takes at once

// UTF-8, with a replacement character for every wrong byte (or an error, where that is asked for).
globalThis.TextDecoder ??= class TextDecoder {
  encoding = 'utf-8';

  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    if (!/^(unicode-1-1-)?utf-?8$/i.test(label)) throw new RangeError(`unknown encoding: ${label}`);
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(input = new Uint8Array()) {
    const bytes = ArrayBuffer.isView(input)
      ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
      : new Uint8Array(input);
    const parts = [];
    let codes = [];
    let at = !this.ignoreBOM && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
    while (at < bytes.length) {
      const [code, length] = this.#codePoint(bytes, at);
      codes.push(code);
      at += length;
      if (codes.length === CHUNK) {
        parts.push(String.fromCodePoint(...codes));
        codes = [];
      }
    }
    return parts.join('') + String.fromCodePoint(...codes);
  }

  // The code point at a place, and how many bytes it takes.
  #codePoint(bytes, at) {
    const first = bytes[at];
    if (first < 0x80) return [first, 1];
    const more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xc2 && first < 0xe0 ? 1 : 0;
    let code = first & (0x3f >> more);
    let length = 1;
    for (; length <= more; length++) {
      const next = bytes[at + length];
      const least = length > 1 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
      const most = length > 1 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
      if (!(next >= least && next <= most)) break;
      code = (code << 6) | (next & 0x3f);
    }
    if (more > 0 && length > more) return [code, length];
    if (this.fatal) throw new TypeError('the bytes are not UTF-8');
    return [0xfffd, length];
  }
};

globalThis.TextEncoder ??= class TextEncoder {
  encoding = 'utf-8';

  encode(text = '') {
    const binary = unescape(encodeURIComponent(String(text).toWellFormed()));
    return Uint8Array.from(binary, (byte) => byte.charCodeAt(0));
  }
};

const shown = (value) => {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ''}`.trimEnd();
  try {
    return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? `${inner}n` : inner)) ?? String(value);
  } catch {
    return String(value);
  }
};

// Everything goes to standard error: haft shows it to the person, not to the model.
const write = (...values) => {
  const bytes = new TextEncoder().encode(`${values.map(shown).join(' ')}\n`);
  const stream = stderr.getStderr();
  for (let at = 0; at < bytes.length; at += CHUNK) stream.blockingWriteAndFlush(bytes.slice(at, at + CHUNK));
};

globalThis.console ??= { debug: write, error: write, info: write, log: write, trace: write, warn: write };

// QuickJS seeds `Math.random` and starts `performance` when the component is made: every call would draw the same numbers and
// read a time before its own beginning. Both begin anew here at their first use in a call; while the component is made they
// do not depend on when and where.
const START = [0x9e3779b9, 0x243f6a88, 0xb7e15162, 0x85ebca6b];
const CLOCK = globalThis.performance?.now.bind(globalThis.performance) ?? Date.now;
let isMade = false; // the component, and this is a call
let seeded = false;
let state = Uint32Array.from(START);
let began = null;
let beganAt = 0;

// What `entry.js` calls last.
export const made = () => {
  isMade = true;
};

const rotated = (value, by) => (value << by) | (value >>> (32 - by));

// xoshiro128**, for numbers that are no secrets.
const draw = () => {
  const drawn = Math.imul(rotated(Math.imul(state[1], 5), 7), 9) >>> 0;
  const third = state[1] << 9;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= third;
  state[3] = rotated(state[3], 11);
  return drawn;
};

Math.random = () => {
  if (isMade && !seeded) {
    const bytes = Uint8Array.from(random.getRandomBytes(16));
    state = new Uint32Array(bytes.buffer).map((word, index) => word ^ START[index]);
    seeded = true;
  }
  return ((draw() >>> 5) * 2 ** 26 + (draw() >>> 6)) / 2 ** 53;
};

const begin = () => {
  if (isMade && began === null) {
    began = CLOCK();
    beganAt = Date.now();
  }
  return began;
};

Object.defineProperty(globalThis, 'performance', {
  configurable: true,
  writable: true,
  value: {
    now: () => (begin() === null ? 0 : CLOCK() - began),
    get timeOrigin() {
      return begin() === null ? 0 : beganAt;
    },
  },
});

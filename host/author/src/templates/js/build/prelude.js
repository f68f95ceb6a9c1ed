// What a plugin may expect of JavaScript and QuickJS does not bring. Made anew by every build.

import stderr from 'wasi:cli/stderr@0.2.12';

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

// Looks at what the plugin's functions throw and return: a mistake is told with its file and line. Made anew by every build.

const MOST_VALUES = 1000; // that are looked at in one answer
const BUGS = [TypeError, ReferenceError, SyntaxError, RangeError, globalThis.InternalError].filter(Boolean);

// The function with its mistakes told. A function of WIT that returns a `result` throws what its error is; an `Error` that
// JavaScript itself throws is none.
export const guarded = (called, self, returned) => {
  const own = returned?.result ?? [returned];
  const throwsText = returned?.result?.[1] === 'string';
  const failed = (error) => {
    if (!(error instanceof Error)) throw error;
    const stack = String(error.stack ?? '').replaceAll('(/', '(').replace(/^ *at /gm, '    at ').trimEnd();
    if (returned?.result && !BUGS.some((kind) => error instanceof kind)) {
      if (!throwsText) throw error;
      const place = /\(([^()]+:\d+):\d+\)/.exec(stack)?.[1];
      throw place ? `${error.message} (${place})` : error.message;
    }
    globalThis.console?.error(`Uncaught ${error}\n${stack}`);
    throw throwsText ? 0 : error; // which is no text, and so ends the call
  };
  const checked = (value) => {
    const wrong = differs(value, own[0] ?? null, called.name, { left: MOST_VALUES });
    if (wrong) failed(wrongType(wrong, called));
    return value;
  };
  return (...values) => {
    let value;
    try {
      value = called.apply(self, values);
    } catch (error) {
      return failed(error);
    }
    return typeof value?.then === 'function' ? value.then(checked, failed) : checked(value);
  };
};

const wrongType = (wrong, called) => {
  const error = new TypeError(wrong);
  const place = called.fileName ? `${called.fileName}:${called.lineNumber ?? 1}:1` : '';
  Object.defineProperty(error, 'stack', { value: place ? `    at ${called.name} (${place})` : error.stack });
  return error;
};

const described = (value) => {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
};

// How a value is not of a shape; nothing where it is.
const differs = (value, shape, place, count) => {
  if (shape === null || count.left-- <= 0) return undefined;
  const expected = (what) => `${place} is ${described(value)}, expected ${what}`;
  if (shape === 'number') return ['number', 'bigint'].includes(typeof value) ? undefined : expected('a number');
  if (typeof shape === 'string') return typeof value === shape ? undefined : expected(`a ${shape}`);
  if ('option' in shape) return value === null || value === undefined ? undefined : differs(value, shape.option, place, count);
  if ('enum' in shape) return typeof value === 'string' && !shape.enum.includes(value) ? `${place} is ${JSON.stringify(value)}, expected one of ${shape.enum.join(', ')}` : undefined;
  if ('list' in shape) return Array.isArray(value) ? first(value, (item, index) => differs(item, shape.list, `${place}[${index}]`, count)) : ArrayBuffer.isView(value) ? undefined : expected('an array');
  if ('tuple' in shape) {
    if (!Array.isArray(value) || value.length !== shape.tuple.length) return expected(`an array of ${shape.tuple.length}`);
    return first(shape.tuple, (part, index) => differs(value[index], part, `${place}[${index}]`, count));
  }
  if ('record' in shape) {
    if (value === null || typeof value !== 'object') return expected('an object');
    return first(shape.record, ([name, part]) => differs(value[name], part, `${place}.${name}`, count));
  }
  return undefined;
};

const first = (items, look) => {
  for (let index = 0; index < items.length; index++) {
    const found = look(items[index], index);
    if (found) return found;
  }
  return undefined;
};

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { text } from './plugin.js';

test('the most frequent words come first', () => {
  assert.deepEqual(text.topWords('the cat and The hat', 2), [
    { word: 'the', times: 2 },
    { word: 'and', times: 1 },
  ]);
});

test('a limit of 0 is refused', () => {
  assert.throws(() => text.topWords('the cat', 0));
});

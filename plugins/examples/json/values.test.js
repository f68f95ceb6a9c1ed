import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changes, get, table } from './values.js';

const users = { users: [{ name: 'Ada', 'a/b': 1 }, { name: 'Bob' }] };

test('a pointer leads to its value', () => {
  assert.equal(get(users, '/users/1/name'), 'Bob');
  assert.equal(get(users, '/users/0/a~1b'), 1);
  assert.equal(get(users, ''), users);
});

test('a pointer that leads nowhere says what there is', () => {
  assert.throws(() => get(users, '/users/0/age'), (error) => error.includes('it has `name`, `a/b`'));
  for (const pointer of ['users', '/users/01', '/users/length', '/__proto__', '/users/0/name/0']) {
    assert.throws(() => get(users, pointer), pointer);
  }
});

test('changes are told by place', () => {
  const after = { users: [{ name: 'Ada', 'a/b': 2 }], more: null };
  assert.deepEqual(changes(users, after, 10), [
    { tag: 'replaced', val: { pointer: '/users/0/a~1b', before: '1', after: '2' } },
    { tag: 'removed', val: { pointer: '/users/1', value: '{"name":"Bob"}' } },
    { tag: 'added', val: { pointer: '/more', value: 'null' } },
  ]);
  assert.equal(changes(users, after, 2).length, 2);
  assert.deepEqual(changes({ a: 1, b: 2 }, { b: 2, a: 1 }, 10), []);
  assert.deepEqual(changes([], {}, 10)[0].tag, 'replaced');
});

test('values within each other end somewhere', () => {
  const deep = () => JSON.parse('['.repeat(1000) + ']'.repeat(1000));
  assert.throws(() => changes(deep(), deep(), 10));
});

test('a table keeps its lines', () => {
  const rows = [{ a: 'x|y', b: 1 }, { b: 'two\nlines' }];
  assert.equal(table(rows), '| a | b |\n| --- | --- |\n| x\\|y | 1 |\n|  | two lines |');
  assert.equal(table(rows, ['b']).split('\n')[0], '| b |');
  assert.throws(() => table([1]));
});

// Ways to fail in JavaScript.

const words = [];

const find = (index) => {
  throw new RangeError(`no word ${index}`); // fault: uncaught
};

export const ways = {
  nullDereference(index) {
    return words[index].word; // fault: null-dereference
  },

  wrongType(index) { // fault: wrong-type
    return [{ word: index, times: 1 }];
  },

  uncaught(index) {
    return find(index);
  },

  outOfMemory(index) {
    const all = [];
    for (;;) all.push(new Uint8Array(1 << 20).fill(index)); // fault: out-of-memory
  },
};

// The tools of my-plugin: each export is an interface of wit/world.wit, each of its functions a tool.

export const text = {
  /**
   * Finds the most frequent words of a text.
   *
   * @param {string} text
   * @param {number | null} limit
   * @returns {{ word: string, times: number }[]}
   */
  topWords(text, limit) {
    if (limit === 0) throw '`limit` must be at least 1';
    const times = new Map();
    for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
      times.set(word, (times.get(word) ?? 0) + 1);
    }
    const words = Array.from(times, ([word, times]) => ({ word, times }));
    words.sort((a, b) => b.times - a.times || (a.word < b.word ? -1 : 1));
    return words.slice(0, limit ?? 10);
  },
};

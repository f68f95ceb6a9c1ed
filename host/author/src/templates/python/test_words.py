import unittest

import words


class Top(unittest.TestCase):
    def test_most_frequent_words_come_first(self):
        self.assertEqual(words.top("the cat and The hat", 2), [("the", 2), ("and", 1)])

    def test_what_is_between_words_is_none(self):
        self.assertEqual(words.top(" ,; _", 2), [])


if __name__ == "__main__":
    unittest.main()

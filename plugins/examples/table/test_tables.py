import os
import tempfile
import unittest

import tables


class Tables(unittest.TestCase):
    def read(self, text: str) -> tables.Table:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table")
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            return tables.read(path)

    def test_csv_with_any_separator(self):
        for text in ["a,b\n1,x\n", "\ufeffa;b\r\n1;x\r\n", 'a\tb\n1\t"x"\n']:
            table = self.read(text)
            self.assertEqual((table.columns, table.rows), (["a", "b"], [{"a": "1", "b": "x"}]), text)

    def test_json(self):
        table = self.read('[{"a": 1}, {"b": [true], "a": null}]')
        self.assertEqual(table.rows, [{"a": "1", "b": ""}, {"a": "", "b": "[true]"}])

    def test_what_is_no_table(self):
        for text in ["", ",\n", "a,a\n", "a,b\n1\n", 'a,b\n"1,2\n', "[1]", "[", "[" * 100_000]:
            with self.assertRaises(tables.Malformed, msg=text[:20]):
                self.read(text)

    def test_kinds(self):
        kinds = {"number": ["1", "-2.5e3"], "date": ["2024-02-29", "2024-02-29T12:00:00"], "text": ["1", "x"], "empty": []}
        for kind, cells in kinds.items():
            self.assertEqual(tables.kind(cells), kind)
        self.assertEqual(tables.kind(["nan"]), "text")

    def test_statistics(self):
        self.assertEqual(tables.statistics_of(["1", "2", "6"]), (1, 6, 3, 2, 7**0.5))
        self.assertIsNone(tables.statistics_of(["1"])[-1])

    def test_conditions(self):
        table = self.read("name,age\nAda,36\nBob,9\nCy,\n")
        for condition, expected in [
            (("age", "greater", "10"), ["Ada"]),
            (("age", "equal", "9.0"), ["Bob"]),
            (("name", "contains", "A"), ["Ada"]),
            (("age", "different", "9"), ["Ada", "Cy"]),
        ]:
            found = tables.find(table, [condition], 10)
            self.assertEqual([row["name"] for row in found], expected, condition)


if __name__ == "__main__":
    unittest.main()

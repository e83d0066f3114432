#!/usr/bin/env python3
"""scripts/check_names.py on small made-up trees."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_names.py"


class CheckNames(unittest.TestCase):
    def check(self, **files):
        """files: text by path, with __ for a slash and the suffix .cpp where there is none."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / (name.replace("__", "/") + ".cpp")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, str(SCRIPT), folder], capture_output=True, text=True, timeout=60)

    def assert_fault(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stdout)
        for word in words:
            self.assertIn(word, result.stderr)

    def assert_clean(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_refuses_two_files_of_one_name(self):
        self.assert_fault(self.check(a__clock="", b__clock=""), "clock.cpp: files of one name: a/clock.cpp, b/clock.cpp")

    def test_refuses_a_class_that_two_files_define(self):
        result = self.check(a="namespace n { class Clock { int x; }; }", b="namespace n {\nstruct Clock final : Base {};\n}")
        self.assert_fault(result, "n::Clock: defined in a.cpp, b.cpp")

    def test_refuses_a_function_that_two_files_define(self):
        result = self.check(a="namespace n { int f(const T& x, int) { return 1; } }", b="int n::g() {} namespace n { int f(const T& y, int k) {} }")
        self.assert_fault(result, "n::f(constT&,int)")

    def test_refuses_a_constant_that_two_headers_define(self):
        text = "namespace n { inline constexpr int kMost = 3; }"
        self.assert_fault(self.check(a=text, b=text), "n::kMost")

    def test_refuses_two_tests_of_one_name(self):
        text = "namespace { TEST_F(Clock, Ticks) { EXPECT_EQ(1, 1); } }"
        self.assert_fault(self.check(a=text, b=text), "TEST Clock.Ticks")

    def test_refuses_a_test_that_no_program_compiles(self):
        self.assert_fault(self.check(clock_test="int x();"), "clock_test.cpp: no CMakeLists.txt names it")

    def test_allows_the_same_name_in_anonymous_and_in_different_namespaces(self):
        self.assert_clean(self.check(a="namespace n { namespace { struct X {}; void f() {} } }",
                                     b="namespace n { namespace { struct X {}; void f() {} } }",
                                     c="namespace m { struct X {}; }", d="namespace n { struct X {}; }"))

    def test_allows_overloads_members_declarations_and_specialisations(self):
        self.assert_clean(self.check(
            a="namespace n { class Y; int f(int); int f(int x) { return x; } A::A(int x) : Base(x) { } }",
            b="namespace n { class Y; int f(int); int f(double x) { return x; } B::B(int x) : Base(x) { } }",
            c="namespace n { template <> struct hash<A> { }; static int h() { } bool operator==(A, A) { } }",
            d="namespace n { template <> struct hash<B> { }; static int h() { } bool operator==(B, B) { } }"))

    def test_reads_past_comments_literals_and_macros(self):
        text = ('// namespace n { struct X {};\n#define S struct X {\\\n};\nnamespace n { const char* k = "struct X {"; '
                "char c = '{'; int big = 1'000; auto r = R\"(struct X { )\"; }")
        self.assert_clean(self.check(a=text, b=text))


if __name__ == "__main__":
    unittest.main()

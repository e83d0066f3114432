#include "cli/program.h"

#include "base/error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

struct Result {
    int code = 0;
    std::string out;
    std::string err;
};

/// Runs `pipescope work <argument>` with `action` as the command's action.
Result run_with(const std::function<ExitCode()>& action, std::vector<const char*> arguments = {"work"}) {
    Program program("pipescope", "A test", "1.2.3");
    CLI::App* command = program.add_command("work", "Works", "Example: pipescope work");
    program.set_action(command, action);
    arguments.insert(arguments.begin(), "pipescope");
    CaptureStdout();
    CaptureStderr();
    Result result;
    result.code = program.run(static_cast<int>(arguments.size()), arguments.data());
    result.out = GetCapturedStdout();
    result.err = GetCapturedStderr();
    return result;
}

TEST(Program, TurnsErrorsIntoExitCodesAndOneLine) {
    EXPECT_EQ(run_with([] { return ExitCode::success; }).code, 0);
    EXPECT_EQ(run_with([] { return ExitCode::infeasible; }).code, 3);
    const Result usage = run_with([]() -> ExitCode { throw BalanceError("balance is wrong"); });
    EXPECT_EQ(usage.code, 2);
    EXPECT_EQ(usage.err, "pipescope: balance is wrong\n");
    EXPECT_EQ(run_with([]() -> ExitCode { throw UsageError(option_name("cores") + " is -1; use 0"); }).err,
              "pipescope: --cores is -1; use 0\n");
    const Result failure = run_with([]() -> ExitCode { throw std::runtime_error("it broke\nframe #0: here"); });
    EXPECT_EQ(failure.code, 1);
    EXPECT_EQ(failure.err, "pipescope: it broke\n");
    EXPECT_EQ(run_with([]() -> ExitCode { throw 7; }).code, 1);
}

TEST(Program, EscapesNewlinesOfNamesAndKeepsTheRemedy) {
    EXPECT_EQ(run_with([]() -> ExitCode { throw Error("a\nb.json: cannot be opened; check the path"); }).err,
              "pipescope: a\\x0ab.json: cannot be opened; check the path\n");
    EXPECT_EQ(run_with([]() -> ExitCode { throw std::runtime_error("\nUnknown type\nException raised from x\n"); }).err,
              "pipescope: Unknown type\n");
}

TEST(Program, SaysWhatToDoAboutTooLittleMemory) {
    const auto said = [](const std::function<ExitCode()>& action) {
        const Result result = run_with(action);
        EXPECT_EQ(result.code, 1);
        return result.err;
    };
    const auto asks_for_less = HasSubstr("; use a smaller batch, smaller micro-batches or a smaller model");
    const auto names_files_too = HasSubstr("; use a smaller file, a smaller batch, ");
    EXPECT_THAT(said([]() -> ExitCode { throw std::bad_alloc(); }), names_files_too);
    EXPECT_THAT(said([]() -> ExitCode { throw std::length_error("larger than max_size()"); }),
                testing::AllOf(HasSubstr("(larger than max_size())"), names_files_too));
    for (const char* torch_says : {"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
                                   "memory: you tried to allocate 3200000000064 bytes.",
                                   "CUDA out of memory. Tried to allocate 20.00 GiB.\nException raised from malloc",
                                   "Storage size calculation overflowed with sizes=[9000000000000000000, 8]"}) {
        EXPECT_THAT(said([&]() -> ExitCode { throw std::runtime_error(torch_says); }), asks_for_less);
    }
    EXPECT_THAT(
        said([]() -> ExitCode {
            throw std::runtime_error("[enforce fail] can't allocate memory: you tried to allocate 64 bytes. Error");
        }),
        HasSubstr("do not fit the memory (64 bytes in one piece); "));
    EXPECT_EQ(said([]() -> ExitCode { throw std::runtime_error("it broke"); }), "pipescope: it broke\n");
}

TEST(Program, SaysThatThereIsNoMemoryWithoutMemory) {
    const auto said = [](int (*program)(int, const char* const*)) {
        ::testing::internal::CaptureStderr();
        EXPECT_EQ(run_main(program, 0, nullptr), 1);
        return ::testing::internal::GetCapturedStderr();
    };
    EXPECT_THAT(said([](int, const char* const*) -> int { throw std::bad_alloc(); }),
                HasSubstr("there is no memory, not even for a message about it; raise the limit"));
    EXPECT_EQ(said([](int, const char* const*) -> int { throw std::runtime_error("it broke"); }),
              "pipescope: it broke\n");
    EXPECT_EQ(run_main([](int argc, const char* const*) { return argc; }, 3, nullptr), 3);
}

TEST(Program, WrongArgumentsAreUsageErrorsThatPointToHelp) {
    for (const auto& arguments :
         std::vector<std::vector<const char*>>{{"play"}, {"work", "--fast"}, {"help", "play"}}) {
        const Result result = run_with([] { return ExitCode::success; }, arguments);
        EXPECT_EQ(result.code, 2);
        EXPECT_THAT(result.err, HasSubstr("pipescope: "));
        EXPECT_THAT(result.err, HasSubstr("help'"));
        EXPECT_EQ(result.out, "");
    }
}

TEST(Program, ShowsTheHelpHoweverWrongTheOtherArgumentsAre) {
    const auto run = [](std::vector<const char*> arguments) {
        return run_with([] { return ExitCode::success; }, std::move(arguments));
    };
    const Result help = run({"work", "--help"});
    EXPECT_THAT(help.out, HasSubstr("Example: pipescope work"));
    for (const auto& arguments : std::vector<std::vector<const char*>>{
             {"work", "--fast", "--help"}, {"work", "-h", "3"}, {"work", "x", "-h"}}) {
        const Result result = run(arguments);
        EXPECT_EQ(result.code, 0);
        EXPECT_EQ(result.out, help.out);
        EXPECT_EQ(result.err, "");
    }
}

/// Runs `pipescope work` with an option and a flag; returns stderr, which must be one line.
std::string said_of(std::vector<const char*> arguments) {
    Program program("pipescope", "A test", "1.2.3");
    CLI::App* command = program.add_command("work", "Works", "");
    int cores = 0;
    int ranks = 0;
    double rate = 0;
    bool json = false;
    command->add_option("--cores", cores, "How many")->type_name("N");
    command->add_option("--ranks", ranks, "How many")->type_name("R");
    command->add_option("--learning-rate", rate, "How fast")->type_name("X");
    command->add_flag("--json", json, "How");
    program.set_action(command, [] { return ExitCode::success; });
    arguments.insert(arguments.begin(), {"pipescope", "work"});
    CaptureStderr();
    EXPECT_EQ(program.run(static_cast<int>(arguments.size()), arguments.data()), 2);
    std::string said = GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    return said;
}

TEST(Program, WrongArgumentsAreNamedWithTheRuleAndTheRemedy) {
    EXPECT_THAT(said_of({"--cores", "x"}), HasSubstr("--cores is 'x'"));
    EXPECT_THAT(said_of({"--cores", "1.5"}), HasSubstr("--cores is '1.5'"));
    EXPECT_THAT(said_of({"--cores", "3000000000"}), HasSubstr("--cores is 3000000000"));
    EXPECT_THAT(said_of({"--learning-rate", "fast"}), HasSubstr("--learning-rate is 'fast'"));
    EXPECT_THAT(said_of({"--ranks", "2.5"}), HasSubstr("--ranks is '2.5'"));
    EXPECT_THAT(said_of({"--ranks", "many"}), HasSubstr("--ranks is 'many'"));
    EXPECT_THAT(said_of({"--cores"}), HasSubstr("--cores"));
    EXPECT_THAT(said_of({"--cores", "1", "--cores", "2"}), HasSubstr("--cores"));
    EXPECT_THAT(said_of({"--json=5"}), HasSubstr("--json"));
    EXPECT_THAT(said_of({"--json=no"}), HasSubstr("--json"));
    EXPECT_THAT(said_of({"--coers=2", "more"}), HasSubstr("--cores"));
    EXPECT_THAT(said_of({"--zzz"}), HasSubstr("--zzz"));
    EXPECT_THAT(said_of({""}), HasSubstr("'' is"));
    EXPECT_THAT(run_with([] { return ExitCode::success; }, {"--fast"}).err, HasSubstr("--fast"));
    EXPECT_THAT(said_of({"first", "second"}), HasSubstr("'first'"));
}

TEST(Program, HelpAndVersionGoToStdout) {
    const Result help = run_with([] { return ExitCode::failure; }, {"work", "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example: pipescope work"));
    const Result version = run_with([] { return ExitCode::failure; }, {"--version"});
    EXPECT_EQ(version.code, 0);
    EXPECT_THAT(version.out, HasSubstr("1.2.3"));
}

TEST(Program, NoArgumentAndHelpPrintTheHelp) {
    const std::string help = run_with([] { return ExitCode::failure; }, {"--help"}).out;
    EXPECT_THAT(help, HasSubstr("pipescope help COMMAND"));
    for (const auto& arguments : std::vector<std::vector<const char*>>{{}, {"help"}}) {
        const Result result = run_with([] { return ExitCode::failure; }, arguments);
        EXPECT_EQ(result.code, 0);
        EXPECT_EQ(result.out, help);
    }
    const Result work = run_with([] { return ExitCode::failure; }, {"help", "work", "hard"});
    EXPECT_EQ(work.code, 0);
    EXPECT_THAT(work.out, HasSubstr("Example: pipescope work"));
    EXPECT_THAT(run_with([] { return ExitCode::failure; }, {"-v"}).out, HasSubstr("1.2.3"));
}

/// The output of `pipescope work --steps VALUE --limit LIMIT` on stderr.
std::string complaint(const char* steps, const char* limit) {
    Program program("pipescope", "A test", "1.2.3");
    CLI::App* command = program.add_command("work", "Works", "");
    std::int64_t number = 0;
    std::string text;
    command->add_option("--steps", number, "How many")->type_name("N");
    command->add_option("--limit", text, "How much")->type_name("LIST");
    program.set_action(command, [] { return ExitCode::success; });
    CaptureStderr();
    const std::array arguments{"pipescope", "work", "--steps", steps, "--limit", limit};
    const int code = program.run(static_cast<int>(arguments.size()), arguments.data());
    std::string said = GetCapturedStderr();
    EXPECT_EQ(code, said.empty() ? 0 : 2);
    return said;
}

TEST(Program, NumbersAreDecimalAndFit64Bits) {
    EXPECT_THAT(complaint("99999999999999999999999", "1"), HasSubstr("at most 2^63 - 1"));
    EXPECT_THAT(complaint("010", "1"), HasSubstr("010 begins with 0; numbers are decimal"));
    EXPECT_THAT(complaint("0x10", "1"), HasSubstr("0x10 begins with 0"));
    EXPECT_EQ(complaint("0", "1"), "");
    EXPECT_EQ(complaint("100", "1"), "");
}

TEST(Program, AnEmptyValueIsRefused) {
    EXPECT_THAT(complaint("1", ""), testing::AllOf(HasSubstr("--limit"), HasSubstr("its value is empty")));
    EXPECT_THAT(complaint("", "1"), testing::AllOf(HasSubstr("--steps"), HasSubstr("its value is empty")));
}

TEST(Program, WrapsHelpBetweenWords) {
    EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
    EXPECT_EQ(wrapped("unbreakable word", 4), "unbreakable\nword");
    EXPECT_EQ(wrapped("", 4), "");
}
}  // namespace
}  // namespace pipescope

#include "cli/run_arguments.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

CommandDefinition definition() {
    return {"run",
            "",
            {{{"MODEL"}, "MODEL", "", true},
             {{"--balance"}, "LIST", "", true},
             {{"-m", "--chunks"}, "N", "", false},
             {{"--resume"}, "", "", false}},
            ""};
}

TEST(RunArguments, ReplacesAnOptionUnderAnyOfItsNames) {
    const CommandDefinition run = definition();
    const RunArguments present(Words{"mlp", "--balance=4,4", "-m8", "--resume"}, run);
    EXPECT_THAT(present.words(), ElementsAre("mlp", "--balance", "4,4", "-m", "8", "--resume"));
    EXPECT_TRUE(present.has("--chunks"));
    EXPECT_THAT(present.changed_by(RunArguments(Words{"--chunks", "16"}, run)).words(),
                ElementsAre("mlp", "--balance", "4,4", "--chunks", "16", "--resume"));
    EXPECT_EQ(present.command(), "pipescope run mlp --balance 4,4 -m 8 --resume");
}

TEST(RunArguments, TakesAllOptionsOfAnotherModel) {
    const CommandDefinition run = definition();
    const RunArguments present(Words{"--balance", "4,4", "mlp", "-m", "8"}, run);
    EXPECT_EQ(present.model(), "mlp");
    EXPECT_THAT(present.changed_by(RunArguments(Words{"unet", "--balance", "3"}, run)).words(),
                ElementsAre("unet", "--balance", "3"));
}

TEST(RunArguments, QuotesWordsForAShell) {
    EXPECT_EQ(RunArguments(Words{"my model.py:make"}, definition()).command(), "pipescope run 'my model.py:make'");
    EXPECT_EQ(RunArguments(Words{"it's $HOME!`x`\\.py"}, definition()).command(),
              R"(pipescope run 'it'\''s $HOME!`x`\.py')");
    EXPECT_EQ(RunArguments(Words{"a\x1b\xff'.py"}, definition()).command(), R"(pipescope run $'a\033\377\047.py')");
}

TEST(RunArguments, RefusesWhatRunDoesNotTake) {
    const CommandDefinition run = definition();
    EXPECT_THAT(thrown<UsageError>([&] { RunArguments(Words{"mlp", "--balanc", "4"}, run); }), HasSubstr("--balanc"));
    EXPECT_THAT(thrown<UsageError>([&] {
                    RunArguments(Words{"mlp", "-m"}, run);
                }),
                AllOf(HasSubstr("-m has no value"), HasSubstr("N")));
    EXPECT_THAT(thrown<UsageError>([&] { RunArguments(Words{"mlp", "4,4"}, run); }), HasSubstr("'4,4'"));
}
}  // namespace
}  // namespace pipescope

// Texts that the program prints for its installation: shell completion and the manual page.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::Not;

/// Completions that bash offers for the last one of `words`.
std::string bash_offers(const User& user, const std::string& words, int last) {
    return user
        .types_to_shell("'" PIPESCOPE_BIN_FOLDER
                        "/pipescope' --print-completion bash >completion && bash -c '. ./completion; "
                        "COMP_WORDS=(" +
                        words + "); COMP_CWORD=" + std::to_string(last) +
                        "; _pipescope; echo \" ${COMPREPLY[*]} \"' >.stdout 2>.stderr")
        .out;
}

TEST(InstalledTexts, BashOffersCommandsAndTheirOptions) {
    const User user;
    EXPECT_EQ(bash_offers(user, "pipescope pl", 1), " plan \n");
    EXPECT_EQ(bash_offers(user, "pipescope simulate p.json --link-b", 3), " --link-bandwidth \n");
    EXPECT_THAT(bash_offers(user, "pipescope plan -", 2), HasSubstr(" -n --partitions "));
    EXPECT_EQ(bash_offers(user, "pipescope help reco", 2), " record recover \n");
    EXPECT_EQ(bash_offers(user, "pipescope simulate p", 2), "  \n");  // names of files
    EXPECT_EQ(bash_offers(user, "pipescope im", 1), " import \n");
    EXPECT_EQ(bash_offers(user, "pipescope import traces --task", 3), " --task-rules \n");
}

TEST(InstalledTexts, ZshAndFishKnowEveryOption) {
    const User user;
    const std::string zsh = user.succeeds("--print-completion zsh").out;
    EXPECT_THAT(zsh, HasSubstr("'(-n --partitions)'{-n,--partitions}'["));
    EXPECT_THAT(zsh, HasSubstr("{--device-catalogue,--catalogue}'["));
    EXPECT_THAT(zsh, HasSubstr("]:FROM\\:TO:'"));
    const std::string fish = user.succeeds("--print-completion fish").out;
    EXPECT_THAT(fish, HasSubstr("'__fish_seen_subcommand_from plan' -s n -l partitions -x -d "));
    EXPECT_THAT(fish, HasSubstr(" -l force -d "));
    for (const std::string shell : {"zsh", "fish"}) {
        user.writes("script", user.succeeds("--print-completion " + shell).out);
        const CommandResult parsed =
            user.types_to_shell("command -v " + shell + " >/dev/null || exit 0; " + shell + " -n script 2>.stderr");
        EXPECT_EQ(parsed.code, 0) << parsed.err;
    }
}

TEST(InstalledTexts, AreRefusedForAnUnknownShell) {
    const CommandResult refused = User().types("--print-completion tcsh");
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("'tcsh', but must name a shell; give bash, zsh or fish"));
}

TEST(InstalledTexts, TheManualPageDescribesEveryCommandWithoutWarnings) {
    const User user;
    user.writes("page", user.succeeds("--print-man").out);
    EXPECT_THAT(user.reads("page"), HasSubstr(".SS simulate\n"));
    EXPECT_THAT(user.reads("page"), HasSubstr(".SS import\n"));
    EXPECT_THAT(user.reads("page"), HasSubstr("\\fB\\-\\-batch\\fR \\fIN\\fR (required)\n"));
    EXPECT_EQ(
        user.types_to_shell("command -v groff >/dev/null || exit 0; groff -man -Tascii -ww page >/dev/null 2>.stderr")
            .err,
        "");
}

TEST(InstalledTexts, KnowTheOptionsOfTheTorchProgram) {
    const std::string fish = User().succeeds("--print-completion fish").out;
    EXPECT_THAT(fish, HasSubstr("-a run -d"));
    if (is_installed("pipescope-torch")) {
        EXPECT_THAT(fish, HasSubstr("'__fish_seen_subcommand_from run' -l steps"));
    } else {
        EXPECT_THAT(fish, Not(HasSubstr("seen_subcommand_from run'")));
    }
}
}  // namespace
}  // namespace pipescope

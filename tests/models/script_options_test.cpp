#include "models/script_options.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

TEST(ScriptOptions, ReadAShapeALossAndTokens) {
    const ScriptOptions image = parse_script_options("net.pt", "input=3x32x40,loss=cross_entropy");
    EXPECT_EQ(image.input, (std::vector<std::int64_t>{3, 32, 40}));
    EXPECT_EQ(image.loss, ScriptLoss::cross_entropy);
    EXPECT_EQ(image.tokens, 0);
    const ScriptOptions text = parse_script_options("net.pt", "tokens=50,input=16");
    EXPECT_EQ(text.input, (std::vector<std::int64_t>{16}));
    EXPECT_EQ(text.tokens, 50);
    EXPECT_EQ(text.loss, ScriptLoss::mse);
}

void expect_options_refused(const std::string& options, const std::string& value, const std::string& remedy) {
    EXPECT_THAT(thrown<UsageError>([&] { parse_script_options("net.pt", options); }),
                AllOf(HasSubstr("'net.pt'"), HasSubstr(value), HasSubstr(remedy)))
        << options;
}

TEST(ScriptOptionsErrors, AskForTheInputsShape) {
    expect_options_refused("", "no input shape", "net.pt:input=3x224x224");
    expect_options_refused("loss=mse", "no input shape", "net.pt:input=3x224x224");
}

TEST(ScriptOptionsErrors, NameTheValueAndWhatItMayBe) {
    expect_options_refused("input=", "input=", "without the batch");
    expect_options_refused("input=3x", "input=3x", "without the batch");
    expect_options_refused("input=3x0", "input=3x0", "without the batch");
    expect_options_refused("input=3*4", "input=3*4", "without the batch");
    expect_options_refused("input=99999999999999999999", "input=9999", "without the batch");
    expect_options_refused("input=4,loss=hinge", "loss=hinge", "loss=mse");
    expect_options_refused("input=4,tokens=1", "tokens=1", "2 or more");
    expect_options_refused("input=4,tokens", "tokens=", "2 or more");
    expect_options_refused("input=4,classes=3", "'classes'", "input, tokens and loss");
    expect_options_refused("input=4,", "''", "input, tokens and loss");
    expect_options_refused("input=4,input=5", "input twice", "each may be given once");
    expect_options_refused("input=4,loss=next_token", "no tokens", "tokens=1000");
}
}  // namespace
}  // namespace pipescope

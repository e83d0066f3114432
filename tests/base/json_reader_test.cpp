#include "base/json_reader.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
using testing::HasSubstr;

constexpr JsonKind kKind{"a test", "correct it", "every test has it; add it", throw_error<UsageError>, 3};

std::string fault_of(const std::string& text, void (*read)(const JsonValue<Json>& value)) {
    return thrown<UsageError>([&] {
        const Json document = parse_json(text, kKind);
        read(JsonValue<Json>(document, "", kKind));
    });
}

TEST(JsonReader, ShortensThePathOfADeepValue) {
    constexpr JsonKind kDeep{"a test", "correct it", "every test has it; add it", throw_error<UsageError>, 64};
    EXPECT_THAT(thrown<UsageError>([&] { parse_json(std::string(80, '['), kDeep); }),
                testing::StartsWith("[0][0][0][0]..[0][0][0][0] nests deeper than 64 levels"));
}

TEST(JsonReader, RefusesWhatTheParsedValueWouldHide) {
    const auto nothing = [](const JsonValue<Json>&) {};
    EXPECT_EQ(fault_of(R"({"a": {"b": 1, "b": 2}})", nothing),
              "a.b appears twice; an object holds each key once; remove one");
    EXPECT_THAT(fault_of(R"({"a": [[[1]]]})", nothing), HasSubstr("a[0][0] nests deeper than 3 levels"));
    EXPECT_THAT(fault_of(std::string("{}\0", 3), nothing), HasSubstr("is not valid JSON in line 1, column 3"));
    EXPECT_EQ(fault_of("{\n\"a\": [1, NaN]}", nothing),
              "a[1] is not valid JSON in line 2, column 10, at 'NaN]}'; a test is one JSON object; correct it");
    EXPECT_THAT(fault_of(R"({"a": 1e999})", nothing), HasSubstr("a is 1e999, which is too large"));
}

TEST(JsonReader, NamesPathValueRuleAndRemedy) {
    EXPECT_EQ(fault_of("[]", [](const JsonValue<Json>& value) { value.object(); }),
              "$ is []; it must be an object; correct it");
    EXPECT_EQ(fault_of("{}", [](const JsonValue<Json>& value) { value.object().at("a"); }),
              "a is missing; every test has it; add it");
    EXPECT_EQ(fault_of(R"({"a": {"b": [1, "x"]}})",
                       [](const JsonValue<Json>& value) {
                           const auto number = [](const JsonValue<Json>& each) { return each.number(); };
                           value.object().at("a").object().at("b").list("a list", number);
                       }),
              "a.b[1] is \"x\"; it must be a number; correct it");
    EXPECT_EQ(fault_of(R"({"a": 7})",
                       [](const JsonValue<Json>& value) { value.object().at("a").integer(1, 6, "from 1 to 6"); }),
              "a is 7; it must be from 1 to 6; correct it");
    EXPECT_EQ(fault_of(R"({"a": 1, "nane": 2})",
                       [](const JsonValue<Json>& value) {
                           value.object().allow({"a", "name"}, "test");
                       }),
              "nane is unknown; the nearest key is name; correct the test");
}

TEST(JsonReader, KeepsWhatNobodyAskedFor) {
    const Json document = parse_json(R"({"z": 1, "a": 2, "b": [3]})", kKind);
    JsonObject<Json> object = JsonValue<Json>(document, "", kKind).object();
    EXPECT_EQ(object.at("a").integer(), 2);
    EXPECT_FALSE(object.find("c"));
    EXPECT_EQ(object.others(), R"({"z":1,"b":[3]})");
}

TEST(JsonReader, TellsIntegersFromOtherNumbers) {
    const auto integer = [](const JsonValue<Json>& value) { value.object().at("a").integer(); };
    EXPECT_THAT(fault_of(R"({"a": 1.0})", integer), HasSubstr("a is 1.0; it must be a whole number"));
    EXPECT_THAT(fault_of(R"({"a": 9223372036854775808})", integer), HasSubstr("a is 9223372036854775808"));
    const auto natural = [](const JsonValue<Json>& value) { value.object().at("a").natural(); };
    EXPECT_THAT(fault_of(R"({"a": -1})", natural), HasSubstr("a whole number from 0"));
    const auto amount = [](const JsonValue<Json>& value) { value.object().at("a").amount(); };
    EXPECT_THAT(fault_of(R"({"a": -0.5})", amount), HasSubstr("not negative"));
}
}  // namespace
}  // namespace pipescope

#include "answers/measured_answer.h"

#include "base/error.h"
#include "simulator/memory/memory_fit.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// 8 billion parameters: 18 bytes of each do not fit an H100.
const std::string kEightBillion =
    "gpt:layers=32,hidden=4096,heads=32,kv_heads=8,mlp=14336,sequence=8192,vocabulary=128256,gated=true";
const std::string kSmallModel = "gpt:layers=8,hidden=2048,heads=16,sequence=2048,vocabulary=32000,gated=true";
constexpr double kGiB = 1024.0 * 1024 * 1024;

class MeasuredRuns : public ::testing::Test {
protected:
    MeasuredRuns() { question_.pipeline.options.batch = 64; }

    MeasuredAnswer fitted(const std::string& model, const std::string& csv) const {
        const auto file = folder_.path() / "runs.csv";
        std::ofstream(file) << csv;
        return measured_answer(ModelOrProfile(model), question_, {"dgx-h100", layout_}, file);
    }
    std::string refused(const std::string& model, const std::string& csv) const {
        return thrown<UsageError>([&] { fitted(model, csv); });
    }
    /// A small model's step on eight replicas.
    static LayoutStep small_step() {
        AskedPipeline asked;
        asked.options.batch = 64;
        LayoutQuestion layout{"dgx-h100", {}};
        layout.layout.data = 8;
        return layout_step(ModelOrProfile(kSmallModel), layout, asked);
    }
    /// A row of this step that took twice its prediction.
    static std::string row_with(double gib) {
        return fmt::format("8,64,{},{}\n", 2 * small_step().step_ns() / 1e9, gib);
    }
    static std::string csv_with(double gib) { return "data-parallel,batch,seconds,gib\n" + row_with(gib); }

    TemporaryFolder folder_;
    SimulateQuestion question_;
    Layout layout_;
};

TEST_F(MeasuredRuns, AreNotQuickerThanTheirDevices) {
    EXPECT_THAT(refused(kEightBillion, "seconds,batch\n4.0,64\n"),
                AllOf(HasSubstr("runs.csv, line 2: seconds is 4; "), HasSubstr("TFLOP/s on 1 device of type H100"),
                      HasSubstr("peak is 989"), HasSubstr("add the columns"), HasSubstr("data-parallel")));
    const double ns = small_step().step_ns();
    EXPECT_THAT(refused(kSmallModel, fmt::format("seconds,batch,data-parallel\n{},64,8\n", ns / 1e10)),
                HasSubstr("TFLOP/s on 8 devices of type H100"));
    fitted(kSmallModel, fmt::format("seconds,batch,data-parallel\n{},64,8\n", ns / 1e9));
}

// One program makes all steps slower or quicker, so a row in another unit stands out.
TEST_F(MeasuredRuns, DifferFromTheirPredictionsAlike) {
    const double seconds = small_step().step_ns() / 1e9;
    const auto rows = [&](double factor) {
        return fmt::format("data-parallel,batch,seconds\n8,64,{}\n8,64,{}\n", 1.5 * seconds, factor * seconds);
    };
    EXPECT_THAT(refused(kSmallModel, rows(1500)),
                AllOf(HasSubstr("runs.csv, line 3, seconds "), HasSubstr("1.5e+03 of its prediction"),
                      HasSubstr("runs.csv, line 2, seconds "), HasSubstr("check the unit of seconds")));
    const MeasuredAnswer answer = fitted(kSmallModel, rows(14));
    ASSERT_EQ(answer.fit.program.published.size(), 1U);
    EXPECT_TRUE(answer.fit.program.published.front().own);
}

TEST_F(MeasuredRuns, FitTheirDevices) {
    EXPECT_THAT(refused(kEightBillion, "seconds,batch,data-parallel\n40,64,8\n"),
                AllOf(HasSubstr("runs.csv, line 2: the layout p1 d8 t1 v1 b1 needs "), HasSubstr("on a device of 79."),
                      HasSubstr("add the columns")));
    fitted(kEightBillion,
           "seconds,batch,data-parallel,tensor-parallel,sequence-parallel,zero,recompute\n"
           "10,64,4,2,yes,1,full\n");
    EXPECT_THAT(refused(kSmallModel, csv_with(10000)),
                AllOf(HasSubstr("line 2: gib is 10000"), HasSubstr("H100 has 79.")));
    EXPECT_THAT(refused(kSmallModel, "seconds,batch\n1e300,64\n"), HasSubstr("it must be from 1e-9 to below 1e9"));
    EXPECT_THAT(refused(kSmallModel, "seconds,batch\n1e-300,64\n"), HasSubstr("it must be from 1e-9"));
    EXPECT_THAT(refused(kSmallModel, "seconds,batch,data-parallel\n1,64,3\n"),
                HasSubstr("runs.csv, line 2: batch is 64"));
}

TEST_F(MeasuredRuns, NeverTakeAwayTheRoomOfAContext) {
    const double tensors = static_cast<double>(highest_peak(small_step().simulation));
    const MeasuredAnswer usual = fitted(kSmallModel, csv_with(tensors / kGiB + 3));
    EXPECT_NEAR(static_cast<double>(*usual.fit.program.context_bytes), 3 * kGiB, 1e6);
    EXPECT_THAT(to_text(usual), HasSubstr("memory fitted"));
    EXPECT_NEAR(to_json(usual).at("steps").at(0).at("memory_error_after").get<double>(), 0, 1e-3);

    const MeasuredAnswer close = fitted(kSmallModel, csv_with(tensors / kGiB + 0.01));
    EXPECT_EQ(close.fit.program.context_bytes, kLeastContext);
    EXPECT_GT(to_json(close).at("steps").at(0).at("memory_error_after").get<double>(), 0.001);

    const MeasuredAnswer below = fitted(kSmallModel, csv_with(tensors / kGiB + 3) + row_with(tensors / kGiB - 1));
    EXPECT_EQ(below.fit.program.context_bytes, std::nullopt) << "the device's headroom stays";
    EXPECT_THAT(to_text(below), AllOf(HasSubstr("runs.csv, line 3: a device showed "), HasSubstr("headroom stays")));
    const auto json = to_json(below);
    EXPECT_TRUE(json.at("context_bytes").is_null());
    EXPECT_THAT(json.at("memory_not_fitted_because").get<std::string>(), HasSubstr("less than its predicted tensors"));
    EXPECT_EQ(json.at("steps").at(1).at("tensor_bytes").get<double>(), tensors);
    EXPECT_TRUE(json.at("steps").at(1).at("memory_error_after").is_null());
}

TEST_F(MeasuredRuns, AreAsTheCommandIsWhereARowSaysNothing) {
    layout_.data = 8;
    EXPECT_EQ(fitted(kSmallModel, fmt::format("seconds\n{}\n", 2 * small_step().step_ns() / 1e9)).layouts.front(),
              "p1 d8 t1 v1 b1");
    layout_.tensor = 4;
    layout_.zero = 3;
    EXPECT_EQ(fitted(kSmallModel, csv_with(60)).layouts.front(), "p1 d8 t4 v1 b1");
}
}  // namespace
}  // namespace pipescope

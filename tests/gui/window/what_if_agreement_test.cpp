#include "gui/tables/table_export.h"
#include "gui/what_if/lane_speed_editor.h"
#include "gui/what_if/placement_editor.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/sample_trace.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLineEdit>
#include <QProcess>
#include <QTest>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

/// Each test makes changes in the panel, and runs `pipescope simulate` with the equivalent options.
class WhatIfAgreement : public testing::Test {
protected:
    void SetUp() override { panel_.show(); }

    void typed(ValueSlider& slider, const QString& text) {
        slider.box().setFocus();
        slider.box().selectAll();
        QTest::keyClicks(&slider.box(), text);
        QTest::keyClick(&slider.box(), Qt::Key_Return);
    }
    static void chosen(QComboBox& box, const QString& text) {
        box.setCurrentText(text);
        Q_EMIT box.textActivated(text);
    }
    std::size_t any(std::size_t below) { return random_() % below; }

    QJsonObject simulatedByTheProgram(const QStringList& flags) {
        QProcess process;
        process.start(QStringLiteral(PIPESCOPE_PROGRAM), QStringList{QStringLiteral("simulate"), file_} + flags);
        if (!process.waitForFinished(60'000)) {
            ADD_FAILURE() << "simulate did not end";
        }
        const QByteArray out = process.readAllStandardOutput();
        EXPECT_FALSE(out.isEmpty()) << process.readAllStandardError().toStdString();
        return QJsonDocument::fromJson(out).object();
    }

    double figure(const QString& key) {
        const FigureTableModel& model = panel_.figures().model();
        for (int row = 0; row < model.rowCount(); ++row) {
            if (model.index(row, FigureTableModel::figure).data() == key) {
                return model.index(row, FigureTableModel::value).data(kExportRole).toDouble();
            }
        }
        ADD_FAILURE() << key.toStdString();
        return 0;
    }

    void changeEverything();
    QStringList sameInFlags() const;

    std::mt19937 random_{0};
    QString file_;
    QString bandwidth_, latency_, limit_, speed_;
    ScenarioModel model_;
    WhatIfPanel panel_{model_};
};

void WhatIfAgreement::changeEverything() {
    const auto oneOf = [&](std::initializer_list<const char*> texts) {
        return QString::fromUtf8(texts.begin()[any(texts.size())]);
    };
    const int lanes = 1 + static_cast<int>(any(4));
    typed(panel_.partitions(), QString::number(lanes));
    const QString schedule = oneOf({"gpipe", "1f1b", "interleaved", "zero-bubble-h1"});
    chosen(panel_.schedule(), schedule);
    const std::size_t chunks = static_cast<std::size_t>(lanesOf(model_.scenario())) * (1 + any(4));
    typed(panel_.microBatches(), QString::number(chunks));
    typed(panel_.batch(), QString::number(chunks * (1 + any(3)) + any(2)));
    chosen(panel_.checkpoint(), oneOf({"always", "except_last", "never"}));
    typed(panel_.bandwidth(), bandwidth_ = oneOf({"0", "50 kB/s", "1 MB/s", "12.5GB/s"}));
    typed(panel_.latency(), latency_ = oneOf({"0", "10us", "250 ns", "1 ms"}));
    typed(panel_.memoryLimit(), limit_ = oneOf({"1 kB", "30 MiB", "2KiB", "1GiB"}));
    typed(panel_.speeds().slider(), speed_ = oneOf({"1", "0.5", "2"}));
    QStringList devices;
    for (int lane = 0; lane < lanesOf(model_.scenario()); ++lane) {
        devices << oneOf({"cpu", "a", "b"});
    }
    panel_.placement().devices().setText(any(2) == 0 ? QString() : devices.join(QLatin1Char(',')));
    QTest::keyClick(&panel_.placement().devices(), Qt::Key_Return);
}

QStringList WhatIfAgreement::sameInFlags() const {
    const PipelineOptions& options = model_.scenario().options;
    QStringList flags{QStringLiteral("--balance"),
                      QString::fromStdString(to_string(options.balance)),
                      QStringLiteral("-m"),
                      QString::number(panel_.microBatches().value()),
                      QStringLiteral("--batch"),
                      QString::number(panel_.batch().value()),
                      QStringLiteral("--checkpoint"),
                      panel_.checkpoint().currentText(),
                      QStringLiteral("--schedule"),
                      panel_.schedule().currentText(),
                      QStringLiteral("--link-latency"),
                      latency_,
                      QStringLiteral("--memory-limit"),
                      limit_,
                      QStringLiteral("--json")};
    if (bandwidth_ != QStringLiteral("0")) {  // copies are free in the panel, and without the flag
        flags << QStringLiteral("--link-bandwidth") << bandwidth_;
    }
    QStringList lanes;
    for (const LaneId lane : options.placement) {
        lanes << QString::number(lane.value());
    }
    if (!lanes.isEmpty()) {
        flags << QStringLiteral("--placement") << lanes.join(QLatin1Char(','));
    }
    if (const QString devices = panel_.placement().devices().text(); !devices.isEmpty()) {
        flags << QStringLiteral("--devices") << devices;
    }
    const QStringList speeds(lanesOf(model_.scenario()), speed_);
    return flags << QStringLiteral("--speed") << speeds.join(QLatin1Char(','));
}

TEST_F(WhatIfAgreement, TheFiguresAreThoseOfPipescopeSimulateWithTheSameOptions) {
    int ran = 0;
    int full = 0;
    for (std::uint32_t seed = 0; seed < 24; ++seed) {
        random_.seed(seed);
        Profile profile = random_profile(random_, 8 + any(3), any(3) == 0);
        for (LayerProfile& layer : profile.layers) {
            layer.output_bytes = {1000, 3000};  // what links can be slow at
        }
        const auto path = temporaryPath("agreement.json");
        std::ofstream(path) << to_json(profile);
        file_ = QString::fromStdString(path.string());
        model_.setPatience(1h);
        model_.setProfile(load_profile(path), std::nullopt);
        changeEverything();
        const QStringList flags = sameInFlags();
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + flags.join(QLatin1Char(' ')).toStdString());
        if (!model_.result()->runs()) {
            continue;  // such as an interleaved schedule of one lane
        }
        ++ran;
        const QJsonObject theirs = simulatedByTheProgram(flags);
        EXPECT_EQ(figure(QStringLiteral("step_time_ns")), theirs[QStringLiteral("step_ns")].toDouble());
        for (const char* key : {"bubble_fraction", "utilization", "speedup", "samples_per_second"}) {
            EXPECT_DOUBLE_EQ(figure(QLatin1String(key)), theirs[QLatin1String(key)].toDouble()) << key;
        }
        double peak = 0;
        for (const QJsonValue lane : theirs[QStringLiteral("lanes")].toArray()) {
            peak = std::max(peak, lane[QStringLiteral("peak_bytes")].toDouble());
        }
        EXPECT_EQ(figure(QStringLiteral("peak_bytes")), peak);
        EXPECT_EQ(model_.result()->simulation.feasible, theirs[QStringLiteral("feasible")].toBool());
        full += model_.result()->simulation.feasible ? 0 : 1;
    }
    EXPECT_GT(ran, 15);
    EXPECT_GT(full, 3);
}
}  // namespace
}  // namespace pipescope

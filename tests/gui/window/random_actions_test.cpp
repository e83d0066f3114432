#include "gui/style/elided_label.h"
#include "gui/style/theme.h"
#include "gui/tables/length_chart.h"
#include "gui/timeline/axis_view.h"
#include "gui/window/run_list_window.h"
#include "gui/window/step_strip.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/window/main_window_fixture.h"

#include <fmt/format.h>

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QAbstractSlider>
#include <QAction>
#include <QActionGroup>
#include <QComboBox>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QRegularExpression>
#include <QTabBar>
#include <QTimer>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr int kActions = 4'000;  // over all files
constexpr qint64 kMostMilliseconds =
    90'000;  // a loaded machine does fewer, unless PIPESCOPE_RANDOM_ACTIONS asks for some

/// Closes menus, dialogs and lists that an action opened, also those that wait for an answer.
void closePopups() {
    for (int tries = 0; tries < 8; ++tries) {
        QWidget* open = QApplication::activePopupWidget() != nullptr ? QApplication::activePopupWidget()
                                                                     : QApplication::activeModalWidget();
        if (open == nullptr) {
            return;
        }
        open->close();
    }
}

/// A user without a plan. The same seed does the same, as far as background work allows.
class RandomUser {
public:
    RandomUser(MainWindow& window, unsigned seed) : window_(window), random_(seed) {}

    void act() {
        switch (below(10)) {
            case 0:
            case 1:
            case 2: pressKey(); break;
            case 3:
            case 4: clickTimeline(); break;
            case 5: clickTable(); break;
            case 6: clickButton(); break;
            case 7: type(); break;
            case 8: below(2) == 0 ? moveSlider() : choose(); break;
            default: changeWindow(); break;
        }
        QApplication::processEvents();
        closePopups();
    }

private:
    std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

    template <class Widget>
    Widget* any() {
        QList<Widget*> shown;
        for (Widget* each : window_.findChildren<Widget*>()) {
            if (each->isVisible() && each->isEnabled() && !each->visibleRegion().isEmpty()) {
                shown << each;
            }
        }
        return shown.isEmpty() ? nullptr : shown[static_cast<qsizetype>(below(static_cast<std::size_t>(shown.size())))];
    }
    QPoint placeIn(const QWidget& widget) {
        return {static_cast<int>(below(static_cast<std::size_t>(std::max(1, widget.width())))),
                static_cast<int>(below(static_cast<std::size_t>(std::max(1, widget.height()))))};
    }

    void pressKey() {
        static constexpr std::array kKeys{Qt::Key_W,
                                          Qt::Key_S,
                                          Qt::Key_A,
                                          Qt::Key_D,
                                          Qt::Key_F,
                                          Qt::Key_0,
                                          Qt::Key_1,
                                          Qt::Key_2,
                                          Qt::Key_3,
                                          Qt::Key_B,
                                          Qt::Key_C,
                                          Qt::Key_H,
                                          Qt::Key_L,
                                          Qt::Key_X,
                                          Qt::Key_K,
                                          Qt::Key_G,
                                          Qt::Key_N,
                                          Qt::Key_P,
                                          Qt::Key_R,
                                          Qt::Key_M,
                                          Qt::Key_Escape,
                                          Qt::Key_Left,
                                          Qt::Key_Right,
                                          Qt::Key_Up,
                                          Qt::Key_Down,
                                          Qt::Key_Tab,
                                          Qt::Key_Return,
                                          Qt::Key_Period,
                                          Qt::Key_Comma,
                                          Qt::Key_BracketLeft,
                                          Qt::Key_BracketRight,
                                          Qt::Key_PageDown};
        static constexpr std::array kModifiers{Qt::NoModifier, Qt::NoModifier, Qt::NoModifier, Qt::ShiftModifier,
                                               Qt::AltModifier};
        QWidget* const focus = QApplication::focusWidget() != nullptr ? QApplication::focusWidget() : &window_;
        QTest::keyClick(focus, kKeys.at(below(kKeys.size())), kModifiers.at(below(kModifiers.size())));
    }
    void clickTimeline() {
        AxisView* const view = any<AxisView>();
        if (view == nullptr) {
            return;
        }
        QWidget& on = *view->viewport();
        const auto modifier = below(4) == 0 ? Qt::ShiftModifier : Qt::NoModifier;
        QTest::mousePress(&on, Qt::LeftButton, modifier, placeIn(on));
        if (below(3) == 0) {
            QTest::mouseMove(&on, placeIn(on));
        }
        QTest::mouseRelease(&on, Qt::LeftButton, modifier, placeIn(on));
    }
    void clickTable() {
        if (below(4) == 0) {
            if (auto* chart = any<LengthChart>()) {
                QTest::mouseClick(chart, Qt::LeftButton, {}, placeIn(*chart));
            }
        } else if (auto* view = any<QAbstractItemView>()) {
            QTest::mouseClick(view->viewport(), Qt::LeftButton, {}, placeIn(*view->viewport()));
        }
    }
    void choose() {
        if (below(3) == 0) {
            raisePanel();
        } else if (below(3) == 0) {
            pickInMenu();
        } else if (auto* box = any<QComboBox>(); box != nullptr && box->count() > 0) {
            box->setCurrentIndex(static_cast<int>(below(static_cast<std::size_t>(box->count()))));
        }
    }
    void raisePanel() {
        const QList<QDockWidget*> docks = window_.findChildren<QDockWidget*>();
        QDockWidget* dock = docks[static_cast<qsizetype>(below(static_cast<std::size_t>(docks.size())))];
        if (!dock->isHidden()) {
            dock->raise();
        }
    }
    /// What times count from, which has no key.
    void pickInMenu() {
        for (QAction* action : window_.findChildren<QAction*>()) {
            if (action->isCheckable() && action->actionGroup() != nullptr && below(6) == 0) {
                action->trigger();
                return;
            }
        }
    }
    void clickButton() {
        if (below(3) == 0) {
            if (auto* tabs = any<QTabBar>(); tabs != nullptr && tabs->count() > 0) {
                tabs->setCurrentIndex(static_cast<int>(below(static_cast<std::size_t>(tabs->count()))));
            }
            return;
        }
        auto* button = any<QAbstractButton>();
        // A tab that is closed leaves nothing to do, and a plan takes minutes.
        if (button != nullptr && !button->inherits("QTabBarCloseButton") && !button->inherits("CloseButton") &&
            !button->text().contains(QStringLiteral("lan"))) {
            QTest::mouseClick(button, Qt::LeftButton);
        }
    }
    void type() {
        static const QStringList kTexts{QStringLiteral("gpu"),
                                        QStringLiteral("cpu,gpu"),
                                        QStringLiteral("B3"),
                                        QStringLiteral("-1"),
                                        QStringLiteral("1e99"),
                                        QStringLiteral("0,1,1,0"),
                                        QStringLiteral("a b"),
                                        QString(),
                                        QStringLiteral("30 MiB"),
                                        QStringLiteral("forward >1ms"),
                                        QStringLiteral("\"gemm\" <=20us")};
        if (auto* line = any<QLineEdit>(); line != nullptr && !line->isReadOnly()) {
            line->setFocus();
            line->selectAll();
            QTest::keyClicks(line, kTexts[static_cast<qsizetype>(below(static_cast<std::size_t>(kTexts.size())))]);
            QTest::keyClick(line, below(2) == 0 ? Qt::Key_Return : Qt::Key_Tab);
        }
    }
    void moveSlider() {
        if (auto* slider = any<QAbstractSlider>(); slider != nullptr && slider->maximum() > slider->minimum()) {
            const auto range = static_cast<std::size_t>(slider->maximum() - slider->minimum()) + 1;
            slider->setValue(slider->minimum() + static_cast<int>(below(std::min<std::size_t>(range, 64))));
        }
    }
    void changeWindow() {
        static constexpr std::array<std::array<int, 2>, 5> kSizes{
            {{1400, 900}, {800, 600}, {640, 480}, {2560, 1440}, {1280, 720}}};
        if (below(4) == 0) {
            const auto& size = kSizes.at(below(kSizes.size()));
            window_.resize(size[0], size[1]);
        } else if (window_.page() != nullptr) {
            QWidget& strip = window_.page()->stepStrip();
            QTest::mouseClick(&strip, Qt::LeftButton, {}, placeIn(strip));
        }
    }

    MainWindow& window_;
    std::mt19937 random_;
};

/// Texts on screen that no reader should see: an unfilled place, or a number that is none.
QStringList wrongTexts(const MainWindow& window) {
    static const QRegularExpression kWrong(QStringLiteral("%[1-9]\\b|\\bnan\\b|\\binf\\b|-0\\.0 %"));
    QStringList wrong;
    const auto look = [&](const QString& text) {
        if (text.contains(kWrong)) {
            wrong << text;
        }
    };
    for (const auto* label : window.findChildren<QLabel*>()) {
        look(label->isVisible() ? label->text() : QString());
    }
    for (const auto* label : window.findChildren<ElidedLabel*>()) {
        look(label->isVisible() ? label->text() : QString());
    }
    for (const auto* view : window.findChildren<QAbstractItemView*>()) {
        const QAbstractItemModel* model = view->isVisible() ? view->model() : nullptr;
        for (int row = 0; model != nullptr && row < std::min(model->rowCount(), 40); ++row) {
            for (int column = 0; column < model->columnCount(); ++column) {
                look(model->index(row, column).data().toString());
            }
        }
    }
    return wrong;
}

/// Calls within calls of two threads, a stream and a counter, in the form of PyTorch's profiler.
std::string threadsJson() {
    std::string events;
    for (int call = 0; call < 40; ++call) {
        const int start = 100 * call;
        events += fmt::format(
            R"({}{{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 17, "tid": {}, "ts": {}, "dur": {}}},
{{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 17, "tid": {}, "ts": {}, "dur": 20}},
{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {}, "dur": {}}},
{{"ph": "C", "name": "utilisation", "pid": 0, "ts": {}, "args": {{"value": {}}}}})",
            call > 0 ? ",\n" : "", 18 + call % 2, start, 60 + call, 18 + call % 2, start + 10, start + 30, 5 + call % 7,
            start, call);
    }
    return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "traceEvents": [)" + events +
           "]}";
}

class RandomActions : public MainWindowTest {};

TEST_F(RandomActions, NeitherCrashNorShowWrongTexts) {
    std::vector<std::string> files;
    const auto add = [&files](const char* name, const SampleRun& run, std::int64_t dropped = 0) {
        files.push_back(temporaryPath(name).string());
        writeSampleTrace(files.back(), run, dropped);
    };
    add("random_plain.sqlite", {});
    add("random_wide.sqlite", {.partitions = 6, .chunks = 12, .steps = 8});
    add("random_interleaved.sqlite", {.partitions = 4, .lanes = 2});
    add("random_noisy.sqlite", {.steps = 6, .cv = 0.05});
    add("random_lossy.sqlite", {}, 17);
    add("random_alone.sqlite", {.steps = 1, .profile = false, .memory = false});
    files.push_back(temporaryPath("random_simulated.sqlite").string());
    writeSimulatedTrace(files.back());
    files.push_back(temporaryPath("random_profile.json").string());
    std::ofstream(files.back()) << to_json(sampleProfile({}));
    files.push_back(temporaryPath("random_threads.json").string());
    std::ofstream(files.back()) << threadsJson();
    add("random_long.sqlite", {.chunks = 2, .steps = 40});
    const std::filesystem::path runs = temporaryPath("random_runs");
    std::filesystem::create_directories(runs);
    writeSampleTrace(runs / "a.sqlite", {});
    writeSampleTrace(runs / "b.sqlite", {.steps = 4, .forward_ns = 12'000'000});
    const auto asked = [](const char* variable) {
        const char* text = std::getenv(variable);
        return text != nullptr ? std::optional(std::stoi(text)) : std::nullopt;
    };
    const auto seed = static_cast<unsigned>(asked("PIPESCOPE_RANDOM_SEED").value_or(1));
    const std::optional<int> wanted = asked("PIPESCOPE_RANDOM_ACTIONS");
    QTimer closing;  // what waits for an answer blocks the action that opened it
    QObject::connect(&closing, &QTimer::timeout, &closePopups);
    closing.start(200);
    QElapsedTimer clock;
    clock.start();
    int done = 0;
    const int each = wanted.value_or(kActions) / static_cast<int>(files.size());
    for (std::size_t file = 0; file < files.size(); ++file) {
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(files[file]));
        ASSERT_TRUE(loaded.wait(kPatience)) << files[file];
        const auto list = [this] { return window_.findChild<RunListWindow*>(); };
        if (list() == nullptr) {  // it stays until the user closes it
            window_.files().open(QString::fromStdString(runs.string()));
            ASSERT_TRUE(QTest::qWaitFor([&] { return list() != nullptr && list()->isComplete(); }, kPatience));
        }
        const unsigned own = seed + static_cast<unsigned>(file);
        std::cout << "random actions on " << files[file] << " with seed " << own << std::endl;
        RandomUser user(window_, own);
        const qint64 until = kMostMilliseconds * static_cast<qint64>(file + 1) / static_cast<qint64>(files.size());
        for (int action = 0; action < each && (wanted || clock.elapsed() < until); ++action, ++done) {
            user.act();
            if (action % 50 == 0) {
                ASSERT_EQ(wrongTexts(window_).join(QLatin1Char('\n')).toStdString(), "")
                    << "seed " << own << ", action " << action;
                window_.grab();
            }
        }
    }
    std::cout << done << " actions in " << clock.elapsed() / 1000 << " s" << std::endl;
    EXPECT_GE(done, wanted ? each * static_cast<int>(files.size()) : 1);
}
}  // namespace
}  // namespace pipescope

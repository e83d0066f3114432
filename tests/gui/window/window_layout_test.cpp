// The whole window with each panel in front, at three sizes and in both themes: nothing may be cut off. If the
// environment has PIPESCOPE_PICTURES=FOLDER, stores the pictures there for inspection.
#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/theme.h"
#include "gui/timeline/memory_view.h"
#include "gui/window/answer_bar.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QAbstractScrollArea>
#include <QAbstractSpinBox>
#include <QCheckBox>
#include <QDir>
#include <QDockWidget>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QToolButton>

namespace pipescope {
namespace {
class WindowLayout : public MainWindowTest {
protected:
    void TearDown() override { applyTheme(Theme::light); }
};

/// The content of a scroll area may be larger than its view.
bool scrolls(const QWidget& widget) {
    for (const QWidget* each = &widget; each->parentWidget() != nullptr; each = each->parentWidget()) {
        const auto* area = qobject_cast<const QAbstractScrollArea*>(each->parentWidget()->parentWidget());
        if (area != nullptr && area->viewport() == each->parentWidget()) {
            return true;
        }
    }
    return false;
}

QString nameOf(const QWidget& widget) {
    QString name = QString::fromLatin1(widget.metaObject()->className());
    if (const auto* label = qobject_cast<const QLabel*>(&widget)) {
        name += QStringLiteral(" \"%1\"").arg(label->text());
    } else if (const auto* button = qobject_cast<const QAbstractButton*>(&widget)) {
        name += QStringLiteral(" \"%1\"").arg(button->text());
    }
    return QStringLiteral("%1 %2x%3").arg(name).arg(widget.width()).arg(widget.height());
}

/// Internal parts of Qt widgets, laid out by their parents.
bool isPartOfAnotherControl(const QWidget& widget) {
    return widget.inherits("QDockWidgetTitleButton") || widget.parentWidget()->inherits("QAbstractSpinBox") ||
           widget.parentWidget()->inherits("QComboBox") ||
           widget.parentWidget()->inherits("QTabBar") ||                     // its arrows, which scroll tabs into sight
           widget.objectName().startsWith(QLatin1String("qt_scrollarea_"));  // scroll bars shrink
}

constexpr int kHeaderMargin = 4;  // on either side of a section's text

/// The first header whose text is wider than its section, or empty.
QString cutOffHeader(const QHeaderView& header) {
    for (int section = 0; section < header.count(); ++section) {
        if (header.isSectionHidden(section)) {
            continue;
        }
        const QString text = header.model()->headerData(section, header.orientation()).toString();
        for (const QString& line : text.split(QLatin1Char('\n'))) {
            if (header.fontMetrics().horizontalAdvance(line) + 2 * kHeaderMargin > header.sectionSize(section)) {
                return QStringLiteral("its section \"%1\" is %2 wide").arg(text).arg(header.sectionSize(section));
            }
        }
    }
    return {};
}

/// The reason why the widget's content is cut off, or empty.
QString cutOff(const QWidget& widget) {
    if (const auto* box = qobject_cast<const QAbstractSpinBox*>(&widget)) {
        // The size hint refers to the largest possible value.
        const int needed = box->fontMetrics().horizontalAdvance(box->text());
        return box->findChild<QLineEdit*>()->contentsRect().width() < needed
                   ? QStringLiteral("its text needs %1").arg(needed)
                   : QString();
    }
    if (const auto* header = qobject_cast<const QHeaderView*>(&widget)) {
        return header->orientation() == Qt::Horizontal ? cutOffHeader(*header) : QString();
    }
    const QSize least = widget.minimumSizeHint();
    if (widget.width() < least.width() || widget.height() < least.height()) {
        return QStringLiteral("needs %1x%2").arg(least.width()).arg(least.height());
    }
    if (!scrolls(widget) && !widget.parentWidget()->rect().contains(widget.geometry())) {
        return QStringLiteral("reaches beyond its parent");
    }
    if (const auto* area = qobject_cast<const QScrollArea*>(&widget);
        area != nullptr && area->horizontalScrollBarPolicy() == Qt::ScrollBarAlwaysOff) {
        const int needed = area->widget()->width();
        return needed > area->viewport()->width() ? QStringLiteral("its content is %1 wide").arg(needed) : QString();
    }
    if (const auto* label = qobject_cast<const QLabel*>(&widget); label != nullptr && !label->text().isEmpty()) {
        if (label->wordWrap()) {
            const int needed = label->heightForWidth(label->width());
            return needed > label->height() ? QStringLiteral("needs %1 high").arg(needed) : QString();
        }
        return label->width() < label->sizeHint().width()
                   ? QStringLiteral("needs %1 wide").arg(label->sizeHint().width())
                   : QString();
    }
    if (const auto* button = qobject_cast<const QAbstractButton*>(&widget); button != nullptr) {
        const auto* tool = qobject_cast<const QToolButton*>(button);
        if (tool != nullptr && tool->toolButtonStyle() == Qt::ToolButtonIconOnly && !tool->icon().isNull()) {
            return {};  // the name is in the tool tip
        }
        const int needed = button->fontMetrics().horizontalAdvance(button->text().remove(QLatin1Char('&')));
        return button->width() < needed ? QStringLiteral("its text needs %1").arg(needed) : QString();
    }
    return {};
}

/// True if any part of the widget is visible inside its parents. Qt moves panels behind another tab outside the window,
/// but still reports them as visible.
bool isSeen(const QWidget& widget, const QWidget& window) {
    if (!widget.isVisible() || widget.window() != &window) {
        return false;
    }
    QRect seen = widget.rect();
    for (const QWidget* each = &widget; each != &window; each = each->parentWidget()) {
        seen = seen.translated(each->pos()).intersected(each->parentWidget()->rect());
    }
    return !seen.isEmpty();
}

QStringList cutOffIn(const QWidget& window) {
    QStringList found;
    for (const QWidget* widget : window.findChildren<QWidget*>()) {
        if (isSeen(*widget, window) && !isPartOfAnotherControl(*widget) &&
            qobject_cast<const ElidedLabel*>(widget) == nullptr) {
            const QString why = cutOff(*widget);
            if (!why.isEmpty()) {
                found << nameOf(*widget) + QStringLiteral(" ") + why;
            }
        }
    }
    return found;
}

void openRun(MainWindow& window, const std::string& name, int partitions) {
    SampleRun run;
    run.partitions = partitions;
    run.chunks = 8;
    const auto path = temporaryPath(name);
    writeSampleTrace(path, run);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    window.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    const std::optional<SliceRef> task = window.files().document()->measured->find({1, TaskKind::backward, 1, 2, -1});
    window.page()->model().select(Source::measured, task);
}

void openFour(MainWindow& window, const std::string& name) {
    openRun(window, name, 4);
}

QToolButton& group(const MainWindow& window, const char* name) {
    for (auto* button : window.findChildren<QToolButton*>()) {
        if (button->accessibleName() == QLatin1String(name) && button->isCheckable()) {
            return *button;
        }
    }
    throw Error("no such group");
}

/// Checks the window with each panel in front. Stores pictures if the environment names a folder.
void lookAtPanels(MainWindow& window, const QString& picture) {
    const QByteArray folder = qgetenv("PIPESCOPE_PICTURES");
    for (QDockWidget* dock : window.findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
        const bool before = dock->isVisible();
        dock->show();
        dock->raise();
        QApplication::processEvents();
        QApplication::processEvents();
        const QString name = dock->objectName() + picture;
        const QImage image = window.grab().toImage();
        EXPECT_EQ(cutOffIn(window).join(QLatin1Char('\n')).toStdString(), "") << name.toStdString();
        if (!folder.isEmpty()) {
            image.save(QDir(QString::fromLocal8Bit(folder)).filePath(name + QStringLiteral(".png")));
        }
        dock->setVisible(before);
    }
}

TEST_F(WindowLayout, CutsNothingOffWithAnyPanelAtAnySizeInEitherTheme) {
    window_.resize(1280, 800);
    openFour(window_, "layout.sqlite");
    for (QCheckBox* box : window_.page()->findChildren<QCheckBox*>()) {
        box->setChecked(true);  // what memory consists of
    }
    MarkChoice everything = window_.page()->model().choice();
    everything.causes = true;
    everything.criticalPath = true;
    window_.page()->model().setChoice(everything);
    for (const Theme theme : {Theme::light, Theme::dark}) {
        applyTheme(theme);
        for (const QSize size : {QSize(1280, 800), QSize(1920, 1080), QSize(3840, 2160)}) {
            window_.resize(size);
            lookAtPanels(window_, QStringLiteral("-%1-%2")
                                      .arg(size.width())
                                      .arg(theme == Theme::dark ? QStringLiteral("dark") : QStringLiteral("light")));
            EXPECT_EQ(window_.size(), size);
        }
    }
}

TEST_F(WindowLayout, PutsPanelsBelowTheTimelinesOfANarrowWindowAndBack) {
    applyTheme(Theme::light);  // as the program does
    window_.resize(1600, 900);
    openFour(window_, "narrow.sqlite");
    auto* selection = window_.findChild<QDockWidget*>(QStringLiteral("details"));
    auto* whatIf = window_.findChild<QDockWidget*>(QStringLiteral("whatIf"));
    ASSERT_TRUE(selection != nullptr && whatIf != nullptr);
    whatIf->show();
    auto* bubbles = window_.findChild<QDockWidget*>(QStringLiteral("bubbles"));
    bubbles->raise();
    QApplication::processEvents();
    QApplication::processEvents();
    EXPECT_EQ(window_.dockWidgetArea(selection), Qt::RightDockWidgetArea);
    window_.resize(800, 600);
    QApplication::processEvents();
    QApplication::processEvents();
    for (const char* name : {"details", "whatIf", "plan", "advice", "lanes"}) {
        auto* dock = window_.findChild<QDockWidget*>(QString::fromLatin1(name));
        dock->show();
        dock->raise();
        QApplication::processEvents();
        QApplication::processEvents();
        EXPECT_EQ(window_.dockWidgetArea(dock), Qt::BottomDockWidgetArea) << name;
        EXPECT_TRUE(window_.rect().contains(dock->geometry())) << name << " is " << dock->width() << " wide";
        EXPECT_FALSE(window_.centralWidget()->geometry().intersects(dock->geometry())) << name;
    }
    EXPECT_EQ(window_.size(), QSize(800, 600));
    selection->raise();
    QApplication::processEvents();
    window_.resize(1600, 900);
    QApplication::processEvents();
    QApplication::processEvents();
    EXPECT_EQ(window_.dockWidgetArea(selection), Qt::RightDockWidgetArea);
    EXPECT_EQ(window_.dockWidgetArea(whatIf), Qt::RightDockWidgetArea);
    EXPECT_GT(selection->width(), 200);
    EXPECT_FALSE(bubbles->visibleRegion().isEmpty()) << "the table is in front that was before";
}

TEST_F(WindowLayout, CutsNothingOffOfTheStartPage) {
    const QByteArray folder = qgetenv("PIPESCOPE_PICTURES");
    for (const Theme theme : {Theme::light, Theme::dark}) {
        applyTheme(theme);
        for (const QSize size : {QSize(1366, 768), QSize(1920, 1080), QSize(3840, 2160)}) {
            window_.resize(size);
            QApplication::processEvents();
            QApplication::processEvents();
            EXPECT_EQ(cutOffIn(window_).join(QLatin1Char('\n')).toStdString(), "") << size.width();
            if (!folder.isEmpty()) {
                window_.grab().save(
                    QDir(QString::fromLocal8Bit(folder))
                        .filePath(
                            QStringLiteral("start-%1-%2.png").arg(size.width()).arg(theme == Theme::dark ? 1 : 0)));
            }
        }
    }
}

TEST_F(WindowLayout, CutsNothingOffWhereTextIsUpToTwiceAsLarge) {
    const QFont usual = QApplication::font();
    for (const int percent : {125, 150, 200}) {
        QFont font = usual;
        font.setPointSizeF(usual.pointSizeF() * percent / 100);
        QApplication::setFont(font);
        MainWindow window(nullptr);
        window.resize(1920, 1080);
        window.show();
        openFour(window, "font.sqlite");
        lookAtPanels(window, QStringLiteral("-font-%1").arg(percent));
    }
    QApplication::setFont(usual);
}

/// Lanes of both timelines that are whole on screen and as high as a line of text.
int readableRows(const MainWindow& window) {
    int rows = 0;
    for (const Source source : {Source::measured, Source::simulated}) {
        const TimelineView& view = window.page()->views().view(source);
        const QRect shown = view.lanesRect() & view.viewport()->rect();
        for (std::size_t lane = 0; lane < window.files().document()->store(source)->lanes().size(); ++lane) {
            const QRect rect = view.laneRect(LaneId{lane});
            rows += rect.height() >= view.fontMetrics().height() && shown.top() <= rect.top() &&
                            rect.bottom() <= shown.bottom()
                        ? 1
                        : 0;
        }
    }
    return rows;
}

TEST_F(WindowLayout, GivesMemoryMoreRoomOnALargeScreen) {
    openFour(window_, "memory_rows.sqlite");
    const auto heightAt = [&](const QSize& size) {
        window_.resize(size);
        QApplication::processEvents();
        QApplication::processEvents();
        return window_.page()->views().memory().view().laneBox(0).height();
    };
    const int usual = heightAt({1280, 800});
    const int large = heightAt({3840, 2160});
    EXPECT_GE(large, 48) << "a curve is readable";
    EXPECT_GE(large, 2 * usual);
}

TEST_F(WindowLayout, HidesThePanelsBelowInALowWindowUntilSomebodyAsks) {
    window_.resize(1280, 800);
    openFour(window_, "folded.sqlite");
    const auto below = [&] {
        int shown = 0;
        for (const QDockWidget* dock : window_.findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
            shown +=
                !dock->isHidden() && window_.dockWidgetArea(const_cast<QDockWidget*>(dock)) == Qt::BottomDockWidgetArea;
        }
        return shown;
    };
    const auto settle = [] {
        QApplication::processEvents();
        QApplication::processEvents();
    };
    auto& bubbles = *window_.findChild<QDockWidget*>(QStringLiteral("bubbles"));
    bubbles.raise();
    const int usual = below();
    EXPECT_GT(usual, 3);
    window_.resize(640, 480);
    settle();
    EXPECT_EQ(below(), 0);
    EXPECT_FALSE(group(window_, "Find").isChecked());
    QTest::mouseClick(&group(window_, "Find"), Qt::LeftButton);
    settle();
    EXPECT_EQ(below(), usual + 1) << "with the selection, which a narrow window has below";
    EXPECT_FALSE(bubbles.visibleRegion().isEmpty()) << "in front, as before";
    EXPECT_TRUE(group(window_, "Find").isChecked());
    QTest::mouseClick(&group(window_, "Find"), Qt::LeftButton);
    settle();
    EXPECT_EQ(below(), 0);
    window_.page()->answer().asked({"", Evidence::lanes, std::nullopt, LaneId{1}});
    settle();
    EXPECT_FALSE(window_.findChild<QDockWidget*>(QStringLiteral("lanes"))->visibleRegion().isEmpty()) << "asked for";
    QTest::mouseClick(&group(window_, "Find"), Qt::LeftButton);
    settle();
    window_.resize(1280, 800);
    settle();
    EXPECT_EQ(below(), usual);
}

TEST_F(WindowLayout, ShowsAllOfEightLanesInASmallWindow) {
    struct Case {
        QSize size;
        bool withPanels;
    };
    for (const auto& [size, withPanels] :
         {Case{{1280, 800}, false}, Case{{1280, 800}, true}, Case{{640, 480}, false}}) {
        MainWindow window(nullptr);
        window.resize(size);
        window.show();
        openRun(window, "eight.sqlite", 8);
        if (withPanels) {
            QTest::mouseClick(&group(window, "Find"), Qt::LeftButton);
        }
        QApplication::processEvents();
        QApplication::processEvents();
        EXPECT_EQ(group(window, "Find").isChecked(), withPanels) << "panels give way to the lanes until asked for";
        for (const Source source : {Source::measured, Source::simulated}) {
            const TimelineView& view = window.page()->views().view(source);
            EXPECT_FALSE(view.overflows()) << size.height();
            EXPECT_EQ(view.drawnNames().size(), 8U) << size.height();
            for (int lane = 0; lane < 8; ++lane) {
                EXPECT_GT(view.laneRect(LaneId{lane}).height(), view.fontMetrics().ascent()) << size.height();
            }
        }
    }
}

TEST_F(WindowLayout, FoldsTheLegendBeforeLanesLoseTheirCopies) {
    openFour(window_, "folded_legend.sqlite");
    const auto legend = [this] { return window_.page()->findChild<Legend*>(); };
    const auto linesAt = [&](const QSize& size) {
        window_.resize(size);
        QApplication::processEvents();
        QApplication::processEvents();
        return (legend()->height() - 4) / (legend()->fontMetrics().height() + 4);
    };
    EXPECT_GT(linesAt({900, 1600}), 1);
    EXPECT_EQ(linesAt({900, 700}), 1);
    const auto [more, place] = legend()->places().back();
    EXPECT_TRUE(more.contains(QStringLiteral(" more"))) << more.toStdString();
    QTest::mouseClick(legend(), Qt::LeftButton, {}, place.center());
    EXPECT_GT(linesAt({900, 700}), 1) << "until asked for";
    QTest::mouseClick(legend(), Qt::LeftButton, {}, legend()->places().back().second.center());
    EXPECT_EQ(linesAt({900, 700}), 1);
}

TEST_F(WindowLayout, GivesTheRoomOfALowPageToTheLanes) {
    const QFont usual = QApplication::font();
    struct Case {
        int percent;
        QSize size;
        int rows;
    };
    for (const auto& [percent, size, rows] :
         {Case{100, {640, 480}, 4}, Case{100, {800, 600}, 4}, Case{150, {1280, 800}, 4}, Case{190, {1600, 1000}, 4},
          Case{200, {1024, 768}, 4}}) {
        QFont font = usual;
        font.setPointSizeF(usual.pointSizeF() * percent / 100);
        QApplication::setFont(font);
        MainWindow window(nullptr);
        window.resize(size);
        window.show();
        openFour(window, "low.sqlite");
        window.resize(size);
        QApplication::processEvents();
        QApplication::processEvents();
        for (const Source source : {Source::measured, Source::simulated}) {
            const QRect lane = window.page()->views().view(source).laneRect(LaneId{0});
            EXPECT_GE(lane.height(), 10) << "at " << percent << " %, in a page of " << window.page()->height();
        }
        EXPECT_GE(readableRows(window), rows) << "at " << percent << " %, in a page of " << window.page()->height();
    }
    QApplication::setFont(usual);
}
}  // namespace
}  // namespace pipescope

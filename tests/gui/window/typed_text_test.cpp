#include "gui/plan/cluster_plan_view.h"
#include "gui/what_if/placement_editor.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/scenario_tools.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QAbstractSpinBox>
#include <QComboBox>
#include <QDockWidget>
#include <QLineEdit>
#include <QPushButton>
#include <QUndoStack>

#include <random>
#include <set>

namespace pipescope {
namespace {
/// Texts that people type, well formed or not, and joins of these.
class TypedText {
public:
    explicit TypedText(unsigned seed) : random_(seed) {}

    template <class List>
    const typename List::value_type& pick(const List& list) {
        return list[static_cast<qsizetype>(random_() % static_cast<std::size_t>(list.size()))];
    }

    QString next() {
        static const QStringList kWords{QString(),
                                        u"0"_qs,
                                        u"1"_qs,
                                        u"2"_qs,
                                        u"3"_qs,
                                        u"-1"_qs,
                                        u"07"_qs,
                                        u"99999999999999999999"_qs,
                                        u"1e3"_qs,
                                        u"1e999"_qs,
                                        u"-1e-300"_qs,
                                        u"nan"_qs,
                                        u"inf"_qs,
                                        u"0.5"_qs,
                                        u"½"_qs,
                                        u"gpu"_qs,
                                        u"cpu"_qs,
                                        u"gpu:0"_qs,
                                        u"adam"_qs,
                                        u"30 MiB"_qs,
                                        u"1 kB/s"_qs,
                                        u"10 us"_qs,
                                        u"-3 GiB"_qs,
                                        u"1..4"_qs,
                                        u"4..1"_qs,
                                        u"0..0"_qs,
                                        u"8..16"_qs,
                                        u"gpt:"_qs,
                                        u"gpt:layers=0"_qs,
                                        u"step 1"_qs,
                                        u"F3"_qs,
                                        u"<b>&amp;"_qs,
                                        u"'\";--"_qs,
                                        u"/no/such/file"_qs,
                                        u"  "_qs,
                                        QString(QChar(0xD800)),
                                        QString(300, QLatin1Char('9'))};
        static const QStringList kJoints{u","_qs, u", "_qs, u",,"_qs, u" "_qs, u".."_qs, QString()};
        QString text = pick(kWords);
        for (std::size_t more = random_() % 4; more > 0; --more) {
            text += pick(kJoints) + pick(kWords);
        }
        return text;
    }

private:
    std::mt19937 random_;
};

class WindowFields : public MainWindowTest {
protected:
    /// Every field of the window that takes text, by dock.
    QList<QLineEdit*> fields() {
        QList<QLineEdit*> all;
        for (QLineEdit* field : window_.findChildren<QLineEdit*>()) {
            if (!field->isReadOnly()) {
                all << field;
            }
        }
        return all;
    }
    void type(QLineEdit& field, const QString& text) {
        field.setFocus();
        field.selectAll();
        field.insert(text);
        field.setModified(true);
        QTest::keyClick(&field, Qt::Key_Return);
        if (auto* box = qobject_cast<QAbstractSpinBox*>(field.parentWidget())) {
            box->interpretText();
        }
        QApplication::processEvents();
    }
};

TEST_F(WindowFields, TakeOrRefuseAnyTextAndTheViewerGoesOn) {
    SampleRun run;
    run.partitions = 3;
    open("typed.sqlite", run);
    for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) {
        dock->show();
    }
    settle();
    ScenarioModel& model = window_.scenarios().tools()->model();
    const QList<QLineEdit*> all = fields();
    ASSERT_GT(all.size(), 20);
    std::set<QString> taken;
    for (const unsigned seed : {1U, 7U, 23U}) {
        TypedText typed(seed);
        for (int round = 0; round < 120; ++round) {
            type(*typed.pick(all), typed.next());
            taken.insert(model.undoStack().undoText());
            if (round % 11 == 0) {
                model.undoStack().undo();
            }
            if (round % 29 == 0) {
                model.backToRecorded();
            }
        }
        // The fields with lists by lane, of any length.
        for (const char* list : {"gpu", "gpu,gpu", "cpu", "cpu,cpu,cpu,cpu", ",", "gpu,gpu,gpu"}) {
            type(window_.scenarios().tools()->panel().placement().devices(), QString::fromLatin1(list));
            type(window_.scenarios().tools()->panel().placement().placement(), QStringLiteral("0,0,1"));
            type(window_.scenarios().tools()->panel().placement().placement(), QStringLiteral("0"));
        }
        window_.scenarios().clusterPlan().start();
        model.backToRecorded();
        window_.finishWork();
        ASSERT_TRUE(model.result());
        EXPECT_TRUE(model.result()->runs());
        EXPECT_EQ(model.result()->simulation.step_time, model.recordedResult()->simulation.step_time);
    }
    EXPECT_GT(taken.size(), 5U) << "hardly any text was taken";
}
}  // namespace
}  // namespace pipescope

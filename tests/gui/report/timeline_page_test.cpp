#include "gui/report/timeline_page.h"

#include "base/error.h"
#include "gui/document/document_loader.h"
#include "gui/document/headlines.h"
#include "gui/document/step_history.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/track_store.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <QCryptographicHash>
#include <QFile>
#include <QPalette>
#include <QProcess>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QUrl>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace pipescope {
namespace {
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const char* const kHostile = "</script><img src=x onerror=\"window.hacked=1\">";

/// A sample run, its analysis, and the scene that the viewer shows first.
class TimelinePage : public testing::Test {
protected:
    void SetUp() override { QLocale::setDefault(QLocale::c()); }

    void load(const SampleRun& run, const std::string& name = "page.sqlite") {
        writeSampleTrace(temporaryPath(name), run);
        use(std::make_shared<TraceDocument>(*loadTrace(QString::fromStdString(temporaryPath(name).string()))));
    }
    void use(std::shared_ptr<const TraceDocument> document) {
        document_ = std::move(document);
        const std::int32_t step = typicalStep(*document_);
        analysis_ = std::make_shared<const StepAnalysis>(document_, step);
        scene_ = {};
        scene_.document = document_;
        scene_.analysis = analysis_;
        scene_.step = step;
        scene_.origin = document_->measured->step(step)->range().start;
        scene_.simulatedShift = analysis_->shift(Alignment::first_task, std::nullopt);
        scene_.range = stepRange(*document_, step);
        scene_.measured = {QStringLiteral("MEASURED"), QStringLiteral("facts")};
        scene_.simulated = {QStringLiteral("SIMULATED"), {}};
        scene_.memory = true;
    }
    Json data() const { return Json::parse(timelinePageData(scene_).toStdString()); }
    void showAll() { scene_.range = wholeRange(*document_, scene_.step); }

    std::shared_ptr<const TraceDocument> document_;
    std::shared_ptr<const StepAnalysis> analysis_;
    PageScene scene_;
};

/// A task as the page holds it.
struct PageTask {
    std::int64_t lane = 0;
    bool copies = false;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::string name;
    std::int32_t step = 0;
    std::int64_t twin = -1;
    std::int64_t bytes = 0;

    auto asTuple() const { return std::tie(lane, copies, start, end, name, step, bytes); }
    friend bool operator<(const PageTask& a, const PageTask& b) { return a.asTuple() < b.asTuple(); }
    friend bool operator==(const PageTask& a, const PageTask& b) { return a.asTuple() == b.asTuple(); }
};

/// A text of `names`, which may stand at an earlier name.
std::string textOf(const Json& page, const char* column, std::size_t number) {
    const Json& texts = page.at("names").at(column);
    const Json& text = texts.at(number);
    return text.is_number() ? texts.at(text.get<std::size_t>()) : text;
}

std::vector<PageTask> tasksOf(const Json& page, std::size_t timeline) {
    const Json& packed = page.at("timelines").at(timeline);
    std::vector<PageTask> tasks;
    for (const Json& row : packed.at("rows")) {
        std::int64_t before = 0;
        for (std::size_t k = 0; k < row.at("tasks"); ++k) {
            const std::size_t i = tasks.size();
            PageTask task;
            task.lane = row.at("lane");
            task.copies = row.at("copies");
            task.start = before + packed.at("start").at(i).get<std::int64_t>();
            task.end = task.start + packed.at("length").at(i).get<std::int64_t>();
            task.name = textOf(page, "name", packed.at("name").at(i));
            task.step = packed.at("step").is_array() ? packed.at("step").at(i) : packed.at("step");
            task.twin = packed.at("twin").at(i);
            task.bytes = packed.contains("bytes") ? packed.at("bytes").at(i).get<std::int64_t>() : 0;
            before = task.end;
            tasks.push_back(std::move(task));
        }
    }
    return tasks;
}

/// What the page must hold of a store: tasks that overlap the range.
std::vector<PageTask> visibleIn(const TimelineStore& store, const PageScene& scene, std::int64_t shift) {
    std::vector<PageTask> tasks;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        for (std::uint32_t i = 0; i < store.rows()[row].start.size(); ++i) {
            const Slice slice = store.slice({row, i});
            const std::int64_t start = slice.start.count() + shift;
            const std::int64_t end = slice.end.count() + shift;
            if (end >= scene.range.start && start <= scene.range.end) {
                tasks.push_back({slice.lane.value(), store.rows()[row].copies, start - scene.origin, end - scene.origin,
                                 taskName(slice.key).toStdString(), slice.key.step, -1, slice.bytes});
            }
        }
    }
    return tasks;
}

TEST_F(TimelinePage, LeadsWithTheAnswer) {
    load({});
    EXPECT_FALSE(data().contains("answer"));
    scene_.answer = {{"17 % idle", Evidence::bubbles, std::nullopt, std::nullopt, VerdictRole::idle},
                     {": "},
                     {"lane 1 works longer", Evidence::lanes, std::nullopt, LaneId{1}, VerdictRole::cause}};
    const nlohmann::json answer = data().at("answer");
    EXPECT_EQ(answer.at(0), nlohmann::json({{"text", "17 % idle"}, {"role", "idle"}, {"evidence", "bubbles"}}));
    EXPECT_EQ(answer.at(1), nlohmann::json({{"text", ": "}, {"role", "words"}}));
    EXPECT_EQ(answer.at(2).at("lane"), 1);
}

TEST_F(TimelinePage, HoldsEveryTaskOnScreenAtItsTimes) {
    SampleRun run;
    run.partitions = 3;
    run.chunks = 5;
    load(run);
    for (const bool all : {false, true}) {
        if (all) {
            showAll();
        }
        const Json page = data();
        ASSERT_EQ(page.at("timelines").size(), 2U);
        EXPECT_EQ(tasksOf(page, 0), visibleIn(*document_->measured, scene_, 0));
        EXPECT_EQ(tasksOf(page, 1), visibleIn(*document_->simulated, scene_, scene_.simulatedShift));
        EXPECT_EQ(page.at("timelines").at(0).at("lanes").size(), document_->measured->lanes().size());
        EXPECT_EQ(page.at("range"), Json({scene_.range.start - scene_.origin, scene_.range.end - scene_.origin}));
    }
    const Json page = data();
    EXPECT_EQ(tasksOf(page, 0).size(), document_->measured->numSlices());
    const TimeRange own = document_->measured->range();
    EXPECT_THAT(page.at("scope").get<std::string>(),
                HasSubstr("to " + formatDuration(own.end - scene_.origin).toStdString() + " since"))
        << "without the margin of the screen";
}

TEST_F(TimelinePage, HoldsOnlyAPartOfTheStepAndTheTwinsOfItsTasks) {
    load({});
    const TimeRange step = document_->measured->step(scene_.step)->range();
    scene_.range = {step.start + step.length() / 3, step.start + step.length() / 2};
    const Json page = data();
    const std::vector<PageTask> measured = tasksOf(page, 0);
    const std::vector<PageTask> simulated = tasksOf(page, 1);
    EXPECT_LT(measured.size(), document_->measured->numSlices() / 2);
    for (const PageTask& task : visibleIn(*document_->measured, scene_, 0)) {
        ASSERT_EQ(std::count(measured.begin(), measured.end(), task), 1) << task.name;
        const auto own = std::find(measured.begin(), measured.end(), task);
        ASSERT_GE(own->twin, 0) << task.name;
        EXPECT_EQ(simulated.at(static_cast<std::size_t>(own->twin)).name, task.name);
    }
    for (const PageTask& task : visibleIn(*document_->simulated, scene_, scene_.simulatedShift)) {
        EXPECT_EQ(std::count(simulated.begin(), simulated.end(), task), 1) << task.name;
    }
}

TEST_F(TimelinePage, DiffersFromTwinsAsTheComparisonDoes) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 6;
    load(run);
    showAll();
    const Json page = data();
    const std::vector<PageTask> measured = tasksOf(page, 0);
    const std::vector<PageTask> simulated = tasksOf(page, 1);
    const auto firstOf = [](const TimelineStore& store, std::uint32_t row) {
        std::size_t first = 0;
        for (std::uint32_t each = 0; each < row; ++each) {
            first += store.rows()[each].start.size();
        }
        return first;
    };
    const auto startOf = [&](std::size_t timeline, std::int32_t step) {
        for (const Json& each : page.at("timelines").at(timeline).at("steps")) {
            if (each.at(0) == step) {
                return each.at(1).get<std::int64_t>();
            }
        }
        ADD_FAILURE() << "no step " << step;
        return std::int64_t{0};
    };
    const std::vector<TaskPair>& pairs = analysis_->matching().pairs;
    ASSERT_GT(pairs.size(), 40U);
    const std::int64_t scale = differenceScaleOf(pairs);
    for (const TaskPair& pair : pairs) {
        const std::size_t m = firstOf(*document_->measured, pair.measured.row) + pair.measured.index;
        const std::size_t s = firstOf(*document_->simulated, pair.simulated.row) + pair.simulated.index;
        ASSERT_EQ(measured.at(m).twin, static_cast<std::int64_t>(s)) << measured.at(m).name;
        ASSERT_EQ(simulated.at(s).twin, static_cast<std::int64_t>(m)) << simulated.at(s).name;
        const std::int64_t originM = startOf(0, scene_.step);
        const std::int64_t originS = startOf(1, 0);
        EXPECT_EQ((measured[m].start - originM) - (simulated[s].start - originS), pair.start_change);
        EXPECT_EQ((measured[m].end - originM) - (simulated[s].end - originS), pair.end_change);
        EXPECT_EQ(page.at("timelines").at(0).at("late").at(m), static_cast<int>(latenessOf(pair.end_change, scale)));
    }
    ASSERT_FALSE(document_->comparison->worst.empty());
    for (const ComparedTask& worst : document_->comparison->worst) {
        const std::string name = taskName(worst.task).toStdString();
        const auto found = std::find_if(measured.begin(), measured.end(), [&](const PageTask& each) {
            return each.name == name && each.step == worst.task.step;
        });
        ASSERT_NE(found, measured.end()) << name;
        const PageTask& twin = simulated.at(static_cast<std::size_t>(found->twin));
        EXPECT_EQ((twin.end - twin.start) - (found->end - found->start), (worst.simulated - worst.measured).count());
    }
}

TEST_F(TimelinePage, HoldsBubblesMemoryFiguresAndTheSelection) {
    load({});
    scene_.choice.criticalPath = true;
    const SliceRef selected = *document_->measured->find({scene_.step, TaskKind::backward, 1, 2, -1});
    scene_.selection = TaskSelection{Source::measured, selected, std::nullopt};
    const Json page = data();
    const Json& bubbles = page.at("timelines").at(0).at("bubbles");
    std::int64_t total = 0;
    for (const Json& length : bubbles.at("length")) {
        total += length.get<std::int64_t>();
    }
    std::int64_t wanted = 0;
    for (const Bubble& bubble : analysis_->bubbles(Source::measured)) {
        wanted += is_work(bubble.cause) ? 0 : bubble.length();
    }
    EXPECT_EQ(total, wanted);
    EXPECT_EQ(page.at("timelines").at(0).at("critical").size(), analysis_->critical(Source::measured).tasks.size());
    ASSERT_EQ(page.at("memory").size(), document_->measured->lanes().size());
    for (std::size_t lane = 0; lane < page.at("memory").size(); ++lane) {
        EXPECT_EQ(page.at("memory").at(lane).at("measured").at("highest"),
                  (*document_->measuredMemory)[lane].highest());
    }
    for (const Json& lane : page.at("memory")) {
        for (const Json& part : lane.at("simulated").at("parts")) {
            EXPECT_LE(part.at(1), lane.at("simulated").at("highest")) << part.at(0);
        }
        EXPECT_FALSE(lane.at("simulated").at("parts").empty()) << "of what the peak consists";
    }
    EXPECT_EQ(tasksOf(page, 0).at(page.at("selected").at(1).get<std::size_t>()).name,
              "backward of micro-batch 2 on partition 1");
    std::set<std::string> figures;
    for (const Json& row : page.at("figures").at("rows")) {
        figures.insert(row.at(0));
    }
    for (const char* name : {"Step time, median", "Bubble fraction, median", "Peak memory of the fullest lane"}) {
        EXPECT_TRUE(figures.contains(name)) << name;
    }
    std::vector<std::string> tables;
    for (const Json& table : page.at("tables")) {
        tables.push_back(table.at("title"));
    }
    EXPECT_THAT(tables, testing::ElementsAre("Tasks whose median durations differ most", "Configuration",
                                             "Lost records", "Environment"));
    scene_.memory = false;
    EXPECT_FALSE(data().contains("memory"));
}

/// The document with that many ranges on two threads, and kernels of its forwards, one below each third of a forward.
std::shared_ptr<TraceDocument> withThreadsAndKernels(const TraceDocument& document, int ranges, int kernelsEach);

TEST_F(TimelinePage, HoldsEveryOtherStepAsOnItsOwnPage) {
    SampleRun run;
    run.partitions = 3;
    run.steps = 5;
    load(run);
    use(withThreadsAndKernels(*document_, 0, 2));
    EXPECT_FALSE(data().contains("others"));
    scene_.allSteps = true;
    const std::int32_t shown = scene_.step;
    const Json page = data();
    ASSERT_EQ(page.at("others").size(), 4U);
    const std::vector<std::int64_t> simulatedHere = page.at("timelines").at(1).at("start");
    for (const Json& other : page.at("others")) {
        const std::int32_t step = other.at("step");
        EXPECT_NE(step, shown);
        analysis_ = std::make_shared<const StepAnalysis>(document_, step);
        scene_.analysis = analysis_;
        scene_.step = step;
        scene_.origin = document_->measured->step(step)->range().start;
        scene_.simulatedShift = analysis_->shift(Alignment::first_task, std::nullopt);
        scene_.range = stepRange(*document_, step);
        const Json own = data();
        const Json& measured = other.at("measured");
        EXPECT_TRUE(measured.at("rows").back().contains("kernels"));
        for (const char* key :
             {"start", "length", "step", "twin", "late", "rows", "steps", "critical", "arrows", "bubbles"}) {
            EXPECT_EQ(measured.at(key), own.at("timelines").at(0).at(key)) << key << " of step " << step;
        }
        for (std::size_t i = 0; i < measured.at("name").size(); ++i) {  // numbers of names differ
            const auto nameOf = [i](const Json& of, const Json& timeline) {
                return textOf(of, "name", timeline.at("name").at(i));
            };
            ASSERT_EQ(nameOf(page, measured), nameOf(own, own.at("timelines").at(0)));
        }
        const Json& simulated = own.at("timelines").at(1);
        EXPECT_EQ(other.at("simulated").at("twin"), simulated.at("twin"));
        EXPECT_EQ(simulated.at("start").at(0),
                  simulatedHere.at(0) + other.at("simulated").at("by").get<std::int64_t>());
        for (const char* key : {"figures", "lanes", "range", "scope"}) {
            EXPECT_EQ(other.at(key), own.at(key)) << key;
        }
        ASSERT_EQ(other.at("memory").size(), own.at("memory").size());
        for (std::size_t lane = 0; lane < other.at("memory").size(); ++lane) {
            EXPECT_EQ(other.at("memory")[lane], own.at("memory")[lane].at("measured")) << "of step " << step;
        }
    }
}

TEST_F(TimelinePage, StaysBelow2MbWithAllStepsOf8LanesAnd32MicroBatches) {
    SampleRun run;
    run.partitions = 8;
    run.chunks = 32;
    run.steps = 40;
    load(run);
    scene_.allSteps = true;
    const Json page = data();
    EXPECT_GE(page.at("others").size(), 8U);
    EXPECT_LT(page.at("others").size(), 39U);
    EXPECT_THAT(page.at("notes").back().get<std::string>(), HasSubstr("other steps are not on this page"));
    EXPECT_LT(timelinePageHtml(scene_).size(), 2'000'000);
}

TEST_F(TimelinePage, HasATableOfChanges) {
    load({});
    scene_.advice =
        std::make_shared<const Advice>(advise(*document_->run.profile, options_as_recorded(document_->run)));
    const Json page = data();
    const Json& table = page.at("tables").at(0);
    EXPECT_EQ(table.at("title"), "What to change");
    ASSERT_EQ(table.at("rows").size(), scene_.advice->moves.size());
    EXPECT_EQ(table.at("rows").at(0).at(0), scene_.advice->moves.front().title);
    EXPECT_THAT(table.at("note").get<std::string>(), HasSubstr("a simulated step of"));
}

/// The pairs of tasks that a page's arrows join, decoded as its script does.
std::set<std::pair<std::int64_t, std::int64_t>> arrowsOf(const Json& timeline) {
    std::set<std::pair<std::int64_t, std::int64_t>> pairs;
    std::int64_t to = 0;
    const Json& arrows = timeline.at("arrows");
    for (std::size_t i = 0; i < arrows.at("to").size(); ++i) {
        to += arrows.at("to")[i].get<std::int64_t>();
        pairs.emplace(to - arrows.at("from")[i].get<std::int64_t>(), to);
    }
    EXPECT_EQ(pairs.size(), arrows.at("to").size()) << "each once";
    return pairs;
}

TEST_F(TimelinePage, HoldsWhatTasksOfTheStepWaitFor) {
    SampleRun run;
    run.partitions = 3;
    run.chunks = 6;
    load(run);
    const Json page = data();
    for (const Source source : {Source::measured, Source::simulated}) {
        const std::size_t timeline = source == Source::measured ? 0 : 1;
        const TimelineStore& store = source == Source::measured ? *document_->measured : *document_->simulated;
        const auto numberOf = [&](SliceRef slice) {  // among those on the page
            const std::int64_t shift = source == Source::measured ? 0 : scene_.simulatedShift;
            std::int64_t number = 0;
            for (std::uint32_t row = 0; row <= slice.row; ++row) {
                const StoredRow& stored = store.rows()[row];
                const std::size_t end = row == slice.row ? slice.index : stored.start.size();
                for (std::size_t i = 0; i < end; ++i) {
                    number +=
                        stored.end[i] + shift >= scene_.range.start && stored.start[i] + shift <= scene_.range.end;
                }
            }
            return number;
        };
        std::set<std::pair<std::int64_t, std::int64_t>> wanted;
        const StepGraph& graph = *analysis_->tasks(source);
        for (StepTaskIndex to = 0; to < graph.tasks().size(); ++to) {
            for (const StepTaskIndex from : graph.dependencies(to)) {
                wanted.emplace(numberOf(graph.task(from).slice), numberOf(graph.task(to).slice));
            }
        }
        EXPECT_GT(wanted.size(), graph.tasks().size() / 2);
        EXPECT_EQ(arrowsOf(page.at("timelines").at(timeline)), wanted);
    }
}

TEST_F(TimelinePage, HoldsTheCompositionOfMemoryOverTime) {
    load({});
    const Json page = data();
    EXPECT_EQ(page.at("memoryCategories").size(), kNumMemoryCategories);
    EXPECT_EQ(page.at("composition"), false);
    scene_.memoryStacked = true;
    EXPECT_EQ(data().at("composition"), true);
    for (std::size_t lane = 0; lane < page.at("memory").size(); ++lane) {
        for (const bool measured : {true, false}) {
            const MemoryTrack& track =
                measured ? document_->measuredMemory->at(lane) : document_->simulatedMemory.at(lane);
            const Json& curve = page.at("memory")[lane].at(measured ? "measured" : "simulated");
            const std::int64_t shift = measured ? 0 : scene_.simulatedShift;
            std::vector<std::int64_t> times;
            std::int64_t time = 0;
            for (const Json& gap : curve.at("time")) {
                times.push_back(time += gap.get<std::int64_t>());
            }
            std::map<std::size_t, std::vector<Bytes>> held;
            for (const Json& category : curve.at("held")) {
                std::vector<Bytes>& bytes = held[category.at("category")];
                bytes.resize(times.size());
                std::size_t at = 0;
                for (std::size_t i = 0; i < category.at("at").size(); ++i) {
                    at += category.at("at")[i].get<std::size_t>();
                    bytes.at(at) = category.at("change")[i];
                }
                std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
            }
            ASSERT_FALSE(held.empty());
            for (std::size_t i = 0; i < times.size(); ++i) {
                const MemoryBreakdown composition = track.compositionAt(times[i] + scene_.origin - shift);
                for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
                    const Bytes here = held.contains(k) ? held[k].at(i) : 0;
                    ASSERT_EQ(here, std::max<Bytes>(0, composition[static_cast<MemoryCategory>(k)]));
                }
            }
        }
    }
}

TEST_F(TimelinePage, HoldsTheLowerBoundAndTheStepsOfTheRun) {
    load({});
    const Json page = data();
    EXPECT_FALSE(page.at("timelines").at(0).contains("bound")) << "what was measured has none";
    const Nanoseconds bound = *document_->lowerBound();
    const std::int64_t start = document_->simulated->range().start + scene_.simulatedShift - scene_.origin;
    EXPECT_EQ(page.at("timelines").at(1).at("bound"), Json::array({start + bound.count(), bound.count()}));
    const StepHistory history = stepHistory(*document_);
    const Json& bars = page.at("steps").at("bars");
    ASSERT_EQ(bars.size(), history.steps.size());
    EXPECT_EQ(page.at("steps").at("median"), history.medianTime.count());
    for (std::size_t i = 0; i < bars.size(); ++i) {
        EXPECT_EQ(bars[i].at("step"), history.steps[i].step);
        EXPECT_EQ(bars[i].at("time"), history.steps[i].time.count());
        EXPECT_EQ(bars[i].at("counts"), !history.steps[i].warmup);
    }
    std::map<std::string, bool> drawn;
    for (const Json& kind : page.at("kinds")) {
        drawn[kind.at("name")] = kind.at("drawn");
    }
    EXPECT_TRUE(drawn.at("forward"));
}

TEST_F(TimelinePage, FramesTheBarOfTheShownStepAlsoIfItHoldsSeveralSteps) {
    SampleRun run;
    run.steps = 1100;
    run.partitions = run.chunks = 1;
    run.memory = false;
    load(run);
    for (const std::int32_t step : {600, 601, 602, 1099}) {
        scene_.step = step;
        const Json page = data();
        ASSERT_EQ(page.at("steps").at("bars").size(), 367U) << "three steps a bar";
        int frames = 0;
        for (const Json& bar : page.at("steps").at("bars")) {
            frames += bar.at("step") == page.at("step") ? 1 : 0;
        }
        EXPECT_EQ(frames, 1) << step;
    }
}

TEST_F(TimelinePage, IsTwoMegabytesAtMostForEightLanesAndThirtyTwoMicroBatchesAndTheSameTwice) {
    SampleRun run;
    run.partitions = 8;
    run.chunks = 32;
    load(run);
    const QByteArray step = timelinePageHtml(scene_);
    EXPECT_LT(step.size(), 2'000'000);
    EXPECT_GT(step.size(), 50'000);
    showAll();
    EXPECT_LT(timelinePageHtml(scene_).size(), 2'000'000) << "all three steps";
    EXPECT_EQ(timelinePageHtml(scene_), timelinePageHtml(scene_));
    load(run, "again.sqlite");
    QByteArray again = timelinePageHtml(scene_);
    EXPECT_EQ(again.replace("again.sqlite", "page.sqlite"), step);
}

TEST_F(TimelinePage, TakesTextsOfATraceForText) {
    load({});
    auto hostile = std::make_shared<TraceDocument>(*document_);
    hostile->run.model = kHostile;
    Timeline timeline;
    timeline.lanes = {{kHostile, "<b>&amp;"}};
    timeline.slices = {{{1, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{10}, 0}};
    hostile->measured = std::make_shared<TimelineStore>(timeline);
    hostile->notes << QString::fromUtf8(kHostile);
    use(hostile);
    scene_.simulated.facts = QString::fromUtf8(kHostile);
    const QByteArray html = timelinePageHtml(scene_);
    EXPECT_FALSE(html.contains("<img"));
    EXPECT_FALSE(html.contains("<b>"));
    EXPECT_EQ(html.count("</script"), 2) << "the data and the program, each ended once";
    const Json page = data();
    EXPECT_EQ(page.at("timelines").at(0).at("lanes").at(0).at("name"), kHostile);
    EXPECT_TRUE(page.at("title").get<std::string>().starts_with(kHostile));
}

TEST_F(TimelinePage, PermitsOnlyItsOwnScriptAndRefersToNothing) {
    load({});
    const QByteArray html = timelinePageHtml(scene_);
    const qsizetype from = html.lastIndexOf("<script>") + 8;
    const QByteArray script = html.mid(from, html.lastIndexOf("</script>") - from);
    const QByteArray hash = QCryptographicHash::hash(script, QCryptographicHash::Sha256).toBase64();
    EXPECT_TRUE(html.contains("content=\"default-src 'none'; script-src 'sha256-" + hash + "'; style-src 'sha256-"));
    EXPECT_FALSE(html.contains("unsafe"));
    for (const char* reference : {"http:", "https:", "src=", "href", "url(", "@import", "fetch(", "XMLHttp"}) {
        EXPECT_FALSE(html.contains(reference)) << reference;
    }
}

TEST_F(TimelinePage, RefusesMoreTasksThanABrowserDraws) {
    Timeline timeline;
    timeline.lanes = {{"lane 0", "cpu"}};
    const std::size_t count = kMostPageTasks + 1;
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::int32_t>(i);
        timeline.slices.push_back({{number / 60'000, TaskKind::forward, 0, number % 60'000, -1},
                                   LaneId{0},
                                   Nanoseconds{10 * static_cast<std::int64_t>(i)},
                                   Nanoseconds{10 * static_cast<std::int64_t>(i) + 9},
                                   0});
    }
    auto document = std::make_shared<TraceDocument>();
    document->measured = std::make_shared<TimelineStore>(timeline);
    use(document);
    scene_.range = document->measured->range();
    EXPECT_THAT(thrown<Error>([&] { timelinePageData(scene_); }),
                AllOf(HasSubstr("300,001 tasks"), HasSubstr("at most 300,000"), HasSubstr("--range FROM:TO")));
    scene_.range.start += 20;
    EXPECT_EQ(data().at("timelines").at(0).at("start").size(), count - 2);
}

TEST_F(TimelinePage, LeavesOutStepsThatAreTooLargeAndTheirNames) {
    Timeline timeline;
    timeline.lanes = {{"lane 0", "cpu"}};
    std::int64_t start = 0;
    const auto addStep = [&](std::int32_t step, std::int32_t first, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::int32_t number = first + static_cast<std::int32_t>(i);
            timeline.slices.push_back({{step, TaskKind::forward, number / 60'000, number % 60'000, -1},
                                       LaneId{0},
                                       Nanoseconds{start},
                                       Nanoseconds{start + 9},
                                       0});
            start += 10;
        }
        start += 1'000;  // so that no step touches the next one
    };
    addStep(0, 0, 10);
    addStep(1, 0, kMostPageTasks + 1);
    addStep(2, 0, kMostPageTasks / 2);  // more bytes than all other steps may have
    addStep(3, 10, 5);
    auto document = std::make_shared<TraceDocument>();
    document->measured = std::make_shared<TimelineStore>(timeline);
    use(document);
    analysis_ = nullptr;
    scene_.analysis = nullptr;
    scene_.step = 0;
    scene_.origin = 0;
    scene_.range = stepRange(*document, 0);
    scene_.allSteps = true;
    const Json page = data();
    ASSERT_EQ(page.at("others").size(), 1U);
    EXPECT_EQ(page.at("others").at(0).at("step"), 3);
    EXPECT_EQ(page.at("names").at("name").size(), 15U) << "of steps 0 and 3";
    EXPECT_THAT(page.at("notes").dump(), HasSubstr("2 other steps are not on this page"));
}

TEST_F(TimelinePage, NeedsATimeline) {
    scene_.document = std::make_shared<TraceDocument>();
    scene_.range = {0, 1};
    EXPECT_THAT(thrown<Error>([&] { timelinePageData(scene_); }), HasSubstr("neither tasks nor threads"));
}

/// A Chrome trace of two threads, one with nested ranges, and a counter.
PageScene threadsScene(const std::string& name, const std::string& json) {
    const auto path = temporaryPath(name);
    std::ofstream(path, std::ios::binary) << json;
    PageScene scene;
    scene.document = loadTrace(QString::fromStdString(path.string()));
    scene.range = wholeRange(*scene.document, 0);
    scene.theme = Theme::light;
    return scene;
}

const char* const kTwoThreads = R"json([
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "trainer"}},
    {"ph": "X", "name": "step 1", "pid": 7, "tid": 1, "ts": 0, "dur": 400},
    {"ph": "X", "name": "load", "pid": 7, "tid": 1, "ts": 10, "dur": 90},
    {"ph": "X", "name": "</script><img src=x>", "pid": 7, "tid": 1, "ts": 120, "dur": 200},
    {"ph": "X", "name": "load", "pid": 7, "tid": 2, "ts": 500, "dur": 300},
    {"ph": "C", "name": "queue", "pid": 7, "ts": 0, "args": {"value": -2}},
    {"ph": "C", "name": "queue", "pid": 7, "ts": 600, "args": {"value": 6}}])json";

TEST_F(TimelinePage, OfAFileWithoutTasksHoldsThreadsAndCounters) {
    scene_ = threadsScene("threads.json", kTwoThreads);
    const QByteArray text = timelinePageData(scene_);
    EXPECT_FALSE(text.contains('<'));
    const Json page = Json::parse(text.toStdString());
    const Json& timeline = page.at("timelines").at(0);
    ASSERT_EQ(timeline.at("lanes").size(), 2U);
    EXPECT_EQ(timeline.at("lanes")[0].at("name"), "thread 1");
    EXPECT_THAT(timeline.at("lanes")[0].at("device").get<std::string>(), HasSubstr("trainer"));
    std::vector<std::int64_t> lanes;
    for (const Json& row : timeline.at("rows")) {
        lanes.push_back(row.at("lane"));
    }
    EXPECT_EQ(lanes, (std::vector<std::int64_t>{0, 0, 1}));
    EXPECT_EQ(timeline.at("length"), Json({400'000, 90'000, 200'000, 300'000}));
    EXPECT_EQ(timeline.at("start"), Json({0, 10'000, 20'000, 500'000})) << "gaps within a row";
    EXPECT_EQ(timeline.at("name")[1], timeline.at("name")[3]);
    EXPECT_EQ(page.at("lanes").at("rows")[0][3], formatDuration(400'000).toStdString()) << "nested ranges count once";
    ASSERT_EQ(page.at("counters").size(), 1U);
    EXPECT_EQ(page.at("counters")[0].at("lowest"), -2);
    EXPECT_EQ(page.at("counters")[0].at("highest"), 6);
    EXPECT_EQ(page.at("counters")[0].at("high").back(), 6);
    EXPECT_LE(page.at("counters")[0].at("time").size(), 3U) << "only where it changes";
    EXPECT_THAT(page.at("scope").get<std::string>(),
                testing::EndsWith("from " + formatDuration(0).toStdString() + " to " +
                                  formatDuration(800'000).toStdString() + "."))
        << "without the margins of the screen";
}

TEST_F(TimelinePage, OfAFileWithoutTasksHoldsTheStepsThatRangesMark) {
    scene_ = threadsScene("marked_steps.json", R"json([
        {"ph": "X", "name": "ProfilerStep#4", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
        {"ph": "X", "name": "ProfilerStep#5", "pid": 1, "tid": 1, "ts": 100, "dur": 200}])json");
    const Json page = data();
    ASSERT_TRUE(page.contains("steps"));
    const Json& bars = page.at("steps").at("bars");
    ASSERT_EQ(bars.size(), 2U);
    EXPECT_EQ(bars[0].at("step"), 4);
    EXPECT_EQ(bars[1].at("time"), 200'000);
    EXPECT_EQ(page.at("lanes").at("rows")[0][3], formatDuration(20'000).toStdString()) << "marks are no work";
}

TEST_F(TimelinePage, OfAFileWithoutTasksHoldsItsFlows) {
    scene_ = threadsScene("flows.json", R"json([
        {"ph": "X", "name": "send", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "other", "pid": 1, "tid": 1, "ts": 200, "dur": 100},
        {"ph": "X", "name": "receive", "pid": 1, "tid": 2, "ts": 150, "dur": 100},
        {"ph": "s", "name": "flow", "cat": "f", "id": 1, "pid": 1, "tid": 1, "ts": 50},
        {"ph": "f", "bp": "e", "name": "flow", "cat": "f", "id": 1, "pid": 1, "tid": 2, "ts": 160}])json");
    const Json page = data();
    EXPECT_EQ(arrowsOf(page.at("timelines")[0]), (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 2}}));
    scene_.range.start = 120'000;  // without the sender
    EXPECT_TRUE(arrowsOf(data().at("timelines")[0]).empty());
}

TEST_F(TimelinePage, OfManyRangesKeepsTheLongestAndSaysSo) {
    std::string json = "[";
    for (int i = 0; i < 70'000; ++i) {
        json += R"({"ph":"X","name":"range of a long name )" + std::to_string(i % 3000) + "x" + R"(","pid":1,"tid":)" +
                std::to_string(i % 20) + R"(,"ts":)" + std::to_string(i * 10) + R"(,"dur":)" +
                std::to_string(1 + i * 7919 % 1000 / 10.0) + "},";
    }
    json.back() = ']';
    scene_ = threadsScene("many_ranges.json", json);
    const QByteArray html = timelinePageHtml(scene_);
    EXPECT_LT(html.size(), 2'000'000);
    const Json page = data();
    const std::size_t held = page.at("timelines")[0].at("start").size();
    EXPECT_GT(held, kMostPageRanges * 9 / 10);
    EXPECT_LE(held, kMostPageRanges);
    EXPECT_THAT(page.at("notes").dump(), HasSubstr("are not on this page"));
}

std::shared_ptr<TraceDocument> withThreadsAndKernels(const TraceDocument& document, int ranges, int kernelsEach) {
    auto more = std::make_shared<TraceDocument>(document);
    const TimeRange whole = document.measured->range();
    TrackStore tracks;
    tracks.texts = {"core/schedules.py(30): forward_step", "core/schedules.py(40): backward_step"};
    tracks.rows = {{{}, "process 1", "thread 1", {}},
                   {{}, "process 2 (python3 pretrain_gpt.py --pipeline-model-parallel-size 4)", "thread 2", {}}};
    for (int i = 0; i < ranges; ++i) {
        TrackRow& row = tracks.rows[static_cast<std::size_t>(i % 2)];
        const std::int64_t start = whole.start + whole.length() / ranges * i;
        row.start.push_back(start);
        row.end.push_back(start + whole.length() / ranges + i % 1000);
        row.text.push_back(static_cast<std::uint32_t>(i % 2));
    }
    CounterRow queue("process 1", "queue");
    queue.add(whole.start, 3);
    queue.add(whole.end, 4);
    tracks.counters.push_back(std::move(queue));
    CounterRow memory("process 1", "memory of GPU 0");
    memory.add(whole.start, 1 << 20);
    memory.add(whole.end, 3 << 20);
    tracks.counters.push_back(std::move(memory));
    more->tracks = std::make_shared<const TrackStore>(std::move(tracks));
    KernelStoreBuilder kernels(document.measured->lanes());
    for (const StoredRow& row : document.measured->rows()) {
        for (std::size_t i = 0; i < row.start.size(); ++i) {
            const TaskKey key = unpack(row.key[i]).value_or(TaskKey{});
            const std::int64_t length = (row.end[i] - row.start[i]) / kernelsEach;
            for (int k = 0; k < kernelsEach && key.kind == TaskKind::forward; ++k) {
                const std::int64_t start = row.start[i] + length * k;
                kernels.add({"void ns::gemm<float>(int)", key, row.lane, start, start + length, 5});
            }
        }
    }
    more->kernels = std::make_shared<const KernelStore>(kernels.finish());
    return more;
}

TEST_F(TimelinePage, HoldsThreadsCountersAndKernelsBesideTasks) {
    load({});
    const Json before = data();
    EXPECT_EQ(before.at("timelines").size(), 2U);
    use(withThreadsAndKernels(*document_, 60, 3));
    const Json page = data();
    ASSERT_EQ(page.at("timelines").size(), 3U);
    const Json& threads = page.at("timelines").at(2);
    EXPECT_EQ(threads.at("source"), "threads");
    EXPECT_EQ(threads.at("names").at("brief"), Json({"forward_step", "backward_step"}));
    EXPECT_NE(threads.at("names").at("kind")[0], threads.at("names").at("kind")[1]);
    EXPECT_EQ(page.at("rangeColors").size(), kRangeColors.size());
    EXPECT_EQ(page.at("counters").size(), 2U);
    const Json& measured = page.at("timelines").at(0);
    std::size_t tasks = 0;
    std::size_t kernels = 0;
    for (const Json& row : measured.at("rows")) {
        (row.contains("kernels") ? kernels : tasks) += row.at("tasks").get<std::size_t>();
    }
    EXPECT_EQ(tasks, tasksOf(before, 0).size()) << "tasks keep their numbers";
    std::size_t forwards = 0;
    for (std::size_t i = 0; i < tasks; ++i) {
        EXPECT_EQ(tasksOf(page, 0)[i], tasksOf(before, 0)[i]);
        forwards += tasksOf(page, 0)[i].name.starts_with("forward") ? 1 : 0;
    }
    EXPECT_EQ(kernels, 3 * forwards);
    EXPECT_EQ(measured.at("twin").size(), tasks + kernels);
    EXPECT_EQ(measured.at("late").size(), tasks + kernels);
    const PageTask kernel = tasksOf(page, 0).at(tasks);
    EXPECT_EQ(kernel.name, "void ns::gemm<float>(int)");
    EXPECT_EQ(kernel.twin, -1);
    EXPECT_THAT(page.at("notes").dump(), testing::Not(HasSubstr("not on this page")));
}

TEST_F(TimelinePage, CallsTasksLateRelativeToWhereTheSimulatedOnesAreDrawn) {
    load({});
    const Json before = data().at("timelines").at(0).at("late");
    scene_.simulatedShift -= document_->measured->step(scene_.step)->range().length() / 10;
    const Json page = data();
    const std::vector<PageTask> simulated = tasksOf(page, 1);
    const Json& late = page.at("timelines").at(0).at("late");
    EXPECT_NE(late, before);
    std::vector<TaskPair> drawn;
    std::vector<int> classes;
    for (const PageTask& task : tasksOf(page, 0)) {
        classes.push_back(late.at(classes.size()));
        drawn.emplace_back();
        if (classes.back() >= 0) {
            drawn.back().end_change = task.end - simulated.at(static_cast<std::size_t>(task.twin)).end;
        }
    }
    const std::int64_t scale = differenceScaleOf(drawn, onTimeWithin(*document_, scene_.step));
    std::size_t compared = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        compared += classes[i] >= 0 ? 1 : 0;
        EXPECT_TRUE(classes[i] < 0 || classes[i] == static_cast<int>(latenessOf(drawn[i].end_change, scale))) << i;
    }
    EXPECT_EQ(compared, analysis_->matching().pairs.size());
}

TEST_F(TimelinePage, WithThreadsAndKernelsOfEightLanesStaysBelowTwoMegabytesAndSaysWhatIsMissing) {
    SampleRun run;
    run.partitions = 8;
    run.chunks = 32;
    load(run);
    use(withThreadsAndKernels(*document_, 80'000, 100));
    showAll();
    EXPECT_LT(timelinePageHtml(scene_).size(), 2'000'000);
    const Json page = data();
    const std::size_t ranges = page.at("timelines").at(2).at("start").size();
    EXPECT_LE(ranges, kMostPageRangesBesideTasks);
    EXPECT_GT(ranges, kMostPageRangesBesideTasks * 9 / 10);
    std::size_t kernels = 0;
    for (const Json& row : page.at("timelines").at(0).at("rows")) {
        kernels += row.contains("kernels") ? row.at("tasks").get<std::size_t>() : 0;
    }
    EXPECT_LE(kernels, kMostPageKernels);
    EXPECT_GT(kernels, 0U);
    for (const char* text : {"ranges of less than", "kernels of less than"}) {
        EXPECT_THAT(page.at("notes").dump(), HasSubstr(text));
    }
}

TEST_F(TimelinePage, WithThreadsKernelsAndMemoryOfManyStepsStaysBelowTwoMegabytes) {
    SampleRun run;
    run.partitions = 8;
    run.chunks = 32;
    run.steps = 12;
    load(run);
    use(withThreadsAndKernels(*document_, 400'000, 60));
    scene_.allSteps = true;
    EXPECT_LT(timelinePageHtml(scene_).size(), 2'000'000);
    const Json page = data();
    ASSERT_GE(page.at("others").size(), 2U);
    for (const Json& other : page.at("others")) {
        const Json& rows = other.at("measured").at("rows");
        EXPECT_TRUE(std::ranges::any_of(rows, [](const Json& row) { return row.contains("kernels"); }));
    }
    EXPECT_THAT(page.at("notes").dump(), HasSubstr("short kernels of other steps are not on this page"));
}

TEST_F(TimelinePage, OfManyKernelsKeepsTheLongestOfEachOtherStep) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 8;
    run.steps = 6;
    load(run);
    use(withThreadsAndKernels(*document_, 0, 2'000));
    scene_.allSteps = true;
    const Json page = data();
    ASSERT_EQ(page.at("others").size(), 5U);
    for (const Json& other : page.at("others")) {
        const Json& measured = other.at("measured");
        std::size_t first = 0;
        std::size_t held = 0;
        for (const Json& row : measured.at("rows")) {
            (row.contains("kernels") ? held : first) += row.at("tasks").get<std::size_t>();
        }
        EXPECT_GT(held, 100U);
        EXPECT_LT(held, 4U * 8 * 2'000);
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (std::size_t i = first; i < first + held; ++i) {
            least = std::min(least, measured.at("length").at(i).get<std::int64_t>());
        }
        const TimeRange range = stepRange(*document_, other.at("step"));
        std::size_t longer = 0;
        for (const StoredRow& row : document_->kernels->slices().rows()) {
            for (const std::size_t i : row.touching(range).indices()) {
                longer += row.range(i).length() >= least ? 1 : 0;
            }
        }
        EXPECT_EQ(longer, held) << "none that is as long is missing";
    }
}

TEST_F(TimelinePage, WritesANameOnceHoweverManyTasksLaunchIt) {
    load({});
    use(withThreadsAndKernels(*document_, 0, 3));
    const QByteArray page = timelinePageData(scene_);
    EXPECT_EQ(page.count("void ns::gemm"), 1);
    EXPECT_EQ(tasksOf(data(), 0).back().name, "void ns::gemm<float>(int)");
}

TEST_F(TimelinePage, NamesTheStepThatStaggeredOnesOverlap) {
    load({});
    EXPECT_FALSE(data().at("timelines").at(0).contains("only"));
    auto staggered = std::make_shared<TraceDocument>(*document_);
    staggered->measured = std::make_shared<const TimelineStore>(sampleTimeline({}), Update::staggered);
    use(staggered);
    const Json page = data();
    EXPECT_EQ(page.at("timelines").at(0).at("only"), scene_.step);
}

TEST_F(TimelinePage, OfASimulatedTraceHasOneTimelineAndItsFigures) {
    writeSimulatedTrace(temporaryPath("simulated_page.sqlite"));
    scene_.document = loadTrace(QString::fromStdString(temporaryPath("simulated_page.sqlite").string()));
    scene_.analysis = std::make_shared<const StepAnalysis>(scene_.document, 0);
    scene_.range = wholeRange(*scene_.document, 0);
    scene_.memory = true;
    const Json page = data();
    ASSERT_EQ(page.at("timelines").size(), 1U);
    EXPECT_EQ(page.at("timelines").at(0).at("source"), "simulated");
    EXPECT_EQ(tasksOf(page, 0), visibleIn(*scene_.document->simulated, scene_, 0));
    EXPECT_FALSE(page.contains("lateness"));
    EXPECT_EQ(page.at("figures").at("rows").at(0).at(0), "Step time");
    EXPECT_EQ(page.at("figures").at("rows").at(1).at(0), "Bubble fraction");
    EXPECT_EQ(page.at("figures").at("rows").at(2).at(0), "Peak memory of the fullest lane");
}

TEST_F(TimelinePage, ColoursCopiesOfAPipelineOnAClusterByTheirLinks) {
    writeSimulatedTrace(temporaryPath("cluster_page.sqlite"));
    auto document = std::make_shared<TraceDocument>(
        *loadTrace(QString::fromStdString(temporaryPath("cluster_page.sqlite").string())));
    ASSERT_TRUE(document->simulation);
    document->simulation->options.hardware.link.place = LinkPlace::between_racks;
    scene_.document = document;
    scene_.range = wholeRange(*scene_.document, 0);
    const Json page = data();
    ASSERT_EQ(page.at("tiers").size(), 1U);
    EXPECT_EQ(page.at("tiers").at(0).at("name"), "copies between racks");
    EXPECT_EQ(page.at("tiers").at(0).at("color"), tierColor(2).name(QColor::HexRgb).toStdString());
    const Json tiers = page.at("timelines").at(0).at("tiers");
    EXPECT_EQ(tiers.size() + 1, document->simulation->options.balance.num_partitions());
    EXPECT_EQ(tiers.at(0), 0);
    int hops = 0;
    for (const Json& kind : page.at("kinds")) {
        hops += kind.at("hops").get<bool>() ? 1 : 0;
    }
    EXPECT_EQ(hops, 2);
}

TEST_F(TimelinePage, HasFiguresAndTooltipsInOneLanguage) {
    load({});
    EXPECT_EQ(data().at("language"), "en");
    EXPECT_EQ(data().at("grouping"), false);
    QLocale::setDefault(QLocale(QLocale::German, QLocale::Germany));
    const Json page = data();
    QLocale::setDefault(QLocale::c());
    EXPECT_THAT(page.at("language").get<std::string>(), testing::StartsWith("de"));
    EXPECT_EQ(page.at("grouping"), true);
    EXPECT_THAT(page.at("figures").at("rows").at(0).at(1).get<std::string>(), HasSubstr(","));
}

TEST_F(TimelinePage, ThinsALongMemoryCurveAndSaysSo) {
    load({});
    EXPECT_THAT(data().at("notes").dump(), testing::Not(HasSubstr("thinned")));
    auto longer = std::make_shared<TraceDocument>(*document_);
    const TimeRange range = document_->measured->range();
    MemoryTrack track;
    constexpr int kSamples = 3 * kMostPageSamples;
    for (int i = 0; i < kSamples; ++i) {
        MemorySample sample;
        sample.time = Nanoseconds{range.start + range.length() / kSamples * i};
        sample.allocated = i == kSamples / 2 ? 1'000'000 : i % 100;
        sample.composition[MemoryCategory::parameters] = sample.allocated;
        track.add(sample);
    }
    longer->measuredMemory = std::make_shared<std::vector<MemoryTrack>>(std::vector{track});
    use(longer);
    showAll();
    const Json page = data();
    EXPECT_THAT(page.at("notes").dump(), HasSubstr("thinned"));
    const std::vector<Bytes> peaks = page.at("memory").at(0).at("measured").at("peak");
    EXPECT_LE(peaks.size(), static_cast<std::size_t>(kMostPageSamples));
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), 1'000'000);
    EXPECT_FALSE(page.at("memory").at(0).at("measured").contains("held"));
    EXPECT_THAT(page.at("notes").dump(), HasSubstr("The composition of thinned memory curves over time"));
}

TEST_F(TimelinePage, IsSavedWholeOrNotAtAll) {
    load({});
    const QString path = QString::fromStdString(temporaryPath("saved.html").string());
    saveTimelinePage(scene_, path);
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_EQ(file.readAll(), timelinePageHtml(scene_));
    EXPECT_THROW(saveTimelinePage(scene_, QStringLiteral("page.pdf")), UsageError);
    EXPECT_THROW(saveTimelinePage(scene_, QStringLiteral("/nowhere/page.html")), Error);
}

// ---- The page's script without a browser

QByteArray readAll(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

/// Runs a driver on the page, and expects all that it checks. Skips without Node.
void driveInNode(const PageScene& scene, const char* driver, const Json& expected) {
    const QString node = QStandardPaths::findExecutable(QStringLiteral("node"));
    if (node.isEmpty()) {
        GTEST_SKIP() << "no node is installed; apt-get install nodejs, then run this test again";
    }
    const QTemporaryDir folder;
    const auto write = [&](const char* name, const QByteArray& text) {
        QFile file(folder.filePath(QString::fromLatin1(name)));
        EXPECT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
        return file.fileName();
    };
    QProcess process;
    process.start(node, {QStringLiteral(PIPESCOPE_PAGES_DIR "/page_without_browser.js"),
                         write("page.html", timelinePageHtml(scene)),
                         QStringLiteral(PIPESCOPE_PAGES_DIR "/") + QString::fromLatin1(driver),
                         write("expected.json", QByteArray::fromStdString(expected.dump()))});
    ASSERT_TRUE(process.waitForFinished(60'000));
    ASSERT_EQ(process.exitCode(), 0) << process.readAllStandardError().toStdString();
    const Json results = Json::parse(process.readAllStandardOutput().toStdString());
    EXPECT_GT(results.size(), 5U);
    for (const Json& each : results) {
        EXPECT_TRUE(each.at("holds").get<bool>())
            << each.at("name").get<std::string>() << ": " << each.at("detail").get<std::string>();
    }
}

TEST_F(TimelinePage, LeadsFromThePartsOfTheAnswerToTheirEvidence) {
    load({});
    const BubbleCause cause = analysis_->bubbles(Source::measured).front().cause;
    const auto part = [](const char* text, Evidence evidence, VerdictRole role) {
        return VerdictPart{text, evidence, std::nullopt, std::nullopt, role};
    };
    scene_.answer = {part("17 % idle", Evidence::bubbles, VerdictRole::idle),
                     {": "},
                     {"it waits (9 points)", Evidence::bubbles, cause, std::nullopt, VerdictRole::cause},
                     part("Others took 12 %.", Evidence::none, VerdictRole::aside),
                     part("Moving a layer would help.", Evidence::change, VerdictRole::change)};
    driveInNode(scene_, "answer_page_driver.js",
                {{"idle", "17 % idle"},
                 {"cause", "it waits (9 points)"},
                 {"aside", "Others took 12 %."},
                 {"change", "Moving a layer would help."},
                 {"name", nameOf(cause).toStdString()}});
}

TEST_F(TimelinePage, LabelsBarsAndPlatesAsTheWindowDoes) {
    SampleRun run;
    run.partitions = 3;
    run.chunks = 12;
    load(run);
    use(withThreadsAndKernels(*document_, 24, 2));
    scene_.simulatedShift -= document_->measured->step(scene_.step)->range().length() / 20;
    const std::vector<TaskPair> pairs = analysis_->pairsAt(scene_.simulatedShift);
    const Json page = data();
    Json labels;
    std::size_t kernel = 0;
    for (const std::size_t timeline : {0U, 1U}) {
        const Json& names = page.at("names");
        Json texts = Json::array();
        for (const Json& name : page.at("timelines").at(timeline).at("name")) {
            const auto number = name.get<std::size_t>();
            const std::int32_t microBatch = names.at("microBatch").at(number);
            const std::string letter = page.at("kinds").at(names.at("kind").at(number).get<std::size_t>()).at("letter");
            texts.push_back(letter.empty() || microBatch < 0 ? letter : letter + std::to_string(microBatch));
        }
        labels[timeline == 0 ? "measured" : "simulated"] = std::move(texts);
    }
    for (const Json& row : page.at("timelines").at(0).at("rows")) {
        kernel += row.contains("kernels") ? 0 : row.at("tasks").get<std::size_t>();
    }
    Json memory = Json::array();
    for (std::size_t lane = 0; lane < document_->measured->lanes().size(); ++lane) {
        memory.push_back("lane " + std::to_string(lane) + " · ▼ " +
                         formatBytes((*document_->measuredMemory)[lane].highest()).toStdString());
    }
    // The first lane's bytes in the middle of the range, by category
    const std::int64_t middle = scene_.range.start + scene_.range.length() / 2;
    const MemoryBreakdown held = document_->measuredMemory->front().compositionAt(middle);
    Json stack = Json::array();
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (held[category] > 0) {
            stack.push_back({{"name", nameOf(category).toStdString()},
                             {"color", styleOf(category).color.name().toStdString()},
                             {"bytes", held[category]},
                             {"text", formatBytes(held[category]).toStdString()}});
        }
    }
    EXPECT_GT(stack.size(), 1U);
    const std::vector<PageTask> tasks = tasksOf(page, 0);
    const StepGraph& graph = *analysis_->tasks(Source::measured);
    const auto numberOf = [&](StepTaskIndex task) {
        const StepTask& of = graph.task(task);
        return std::ranges::find_if(tasks,
                                    [&](const PageTask& each) {
                                        return each.name == taskName(of.key).toStdString() && each.step == of.key.step;
                                    }) -
               tasks.begin();
    };
    Json late = Json::array();  // by measured task
    for (const PageTask& task : tasks) {
        const auto pair = std::ranges::find_if(pairs, [&](const TaskPair& each) {
            const Slice slice = document_->measured->slice(each.measured);
            return slice.key.step == task.step &&
                   taskName(document_->measured->shownKey(each.measured)).toStdString() == task.name;
        });
        const bool isCompared = pair != pairs.end();
        late.push_back(isCompared ? latenessText(pair->end_change).toStdString() : std::string());
    }
    const StepTaskIndex chosen = graph.find({scene_.step, TaskKind::backward, 1, 5, -1});
    const auto arrowed = numberOf(chosen);
    Json arrows = Json::array();
    for (const StepTaskIndex from : graph.dependencies(chosen)) {
        arrows.push_back({numberOf(from), arrowed});
    }
    for (const StepTaskIndex to : graph.dependents(chosen)) {
        arrows.push_back({arrowed, numberOf(to)});
    }
    EXPECT_GT(arrows.size(), 1U);
    const auto longest = std::ranges::max(analysis_->bubbles(Source::measured), {}, [](const Bubble& each) {
        return each.culprit == kNoTask || each.next == kNoTask ? 0 : each.length();
    });
    const Json bubble{{"time", (longest.start + longest.end) / 2 - scene_.origin},
                      {"culprit", numberOf(longest.culprit)},
                      {"next", numberOf(longest.next)}};
    const Json expected{
        {"bound", "lower bound " + formatDuration(document_->lowerBound()->count()).toStdString()},
        {"labels", labels},
        {"memory", memory},
        {"stack", stack},
        {"stackTime", middle - scene_.origin},
        {"late", late},
        {"arrowed", arrowed},
        {"arrows", arrows},
        {"bubble", bubble},
        {"paths",
         {"facts  ·  " + analysis_->criticalPathText(Source::measured).toStdString(),
          analysis_->criticalPathText(Source::simulated).toStdString()}},
        {"figures", {page.at("figures").at("rows").at(0).at(1), page.at("lanes").at("rows").at(0).at(1)}},
        {"steps",
         {"median ", "pale top: bubble", "hatched: not counted", "frame: step " + std::to_string(scene_.step)}},
        {"rows",
         {"thread 1 · process 1", "thread 2 · process 2", "queue · 3 to 4",
          " · " + formatBytes(1 << 20).toStdString() + " to " + formatBytes(3 << 20).toStdString()}},
        {"threads", {"thread 1 · process 1", "forward_step"}},
        {"kernels", {"gemm"}},
        {"kernel", kernel}};
    driveInNode(scene_, "labels_page_driver.js", expected);
}

TEST_F(TimelinePage, ShadesAndNamesThePartitionsOfALaneWithSeveral) {
    SampleRun run;
    run.partitions = 4;
    run.lanes = 2;
    load(run);
    const Json page = data();
    const Json& names = page.at("names");
    Json tasks = Json::array();
    for (const Json& name : page.at("timelines").at(1).at("name")) {
        const auto number = name.get<std::size_t>();
        const std::int32_t partition = names.at("partition").at(number);
        const Json& kind = page.at("kinds").at(names.at("kind").at(number).get<std::size_t>());
        const QColor bar = QColor(QString::fromStdString(kind.at("color")));
        // Lane 0 runs the partitions 0 and 2, lane 1 the partitions 1 and 3.
        tasks.push_back({{"partition", partition},
                         {"shade", partitionShade(bar, partition >= 2 ? 1 : 0).name().toStdString()},
                         {"label", kind.at("letter").get<std::string>() +
                                       std::to_string(names.at("microBatch").at(number).get<std::int32_t>())}});
    }
    driveInNode(scene_, "partitions_page_driver.js",
                {{"tasks", tasks}, {"legend", partitionLegend(*document_).toStdString()}});
    run = {};
    load(run);
    EXPECT_FALSE(data().contains("partitionLegend"));
    EXPECT_FALSE(data().at("timelines").at(0).at("lanes").at(0).contains("places"));
}

// ---- In a browser

QString firefox() {
    for (const char* name : {"firefox", "firefox-esr"}) {
        if (const QString found = QStandardPaths::findExecutable(QString::fromLatin1(name)); !found.isEmpty()) {
            return found;
        }
    }
    return {};
}

QString browser() {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
        if (const QString found = QStandardPaths::findExecutable(QString::fromLatin1(name)); !found.isEmpty()) {
            return found;
        }
    }
    return {};
}

/// The page with a script at its start and one at its end, which its policy then permits too.
QByteArray withScripts(QByteArray html, const QByteArray& first, const QByteArray& last) {
    QByteArray hashes;
    for (const QByteArray& script : {first, last}) {
        hashes += "'sha256-" + QCryptographicHash::hash(script, QCryptographicHash::Sha256).toBase64() + "' ";
    }
    html.replace("script-src ", "script-src " + hashes);
    html.replace("<body>", "<body><script>" + first + "</script>");
    return html.replace("</body>", "<script>" + last + "</script></body>");
}

/// The DOM after the scripts of the page ran.
QByteArray domOf(const QByteArray& html, const QStringList& options) {
    const QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("page.html"));
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(html) != html.size()) {
        return {};
    }
    file.close();
    QProcess process;
    process.start(browser(), QStringList{QStringLiteral("--headless"), QStringLiteral("--no-sandbox"),
                                         QStringLiteral("--disable-gpu"), QStringLiteral("--virtual-time-budget=60000"),
                                         QStringLiteral("--window-size=1400,1000"),
                                         QStringLiteral("--user-data-dir=") + folder.filePath(QStringLiteral("user")),
                                         QStringLiteral("--dump-dom")} +
                                 options + QStringList{QUrl::fromLocalFile(path).toString()});
    if (!process.waitForFinished(90'000)) {
        process.kill();
        process.waitForFinished(10'000);
        return {};
    }
    return process.readAllStandardOutput();
}

/// What the page's driver says to Firefox's stdout. Firefox has no option to print a page.
QByteArray saidInFirefox(const QByteArray& html, int scale) {
    const QTemporaryDir folder;
    const auto write = [&folder](const char* name, const QByteArray& text) {
        QFile file(folder.filePath(QString::fromLatin1(name)));
        return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
    };
    const QByteArray preferences =
        "user_pref('browser.dom.window.dump.enabled', true);\n"
        "user_pref('datareporting.policy.dataSubmissionEnabled', false);\n"
        "user_pref('app.update.enabled', false);\n"
        "user_pref('layout.throttled_frame_rate', 60);\n"  // of a window that nobody sees: else one frame a second
        "user_pref('layout.css.devPixelsPerPx', '" +
        QByteArray::number(scale) + "');\n";
    if (!write("page.html", html) || !write("user.js", preferences)) {
        return {};
    }
    QProcess process;
    process.start(firefox(), {QStringLiteral("--headless"), QStringLiteral("--no-remote"), QStringLiteral("--profile"),
                              folder.path(), QStringLiteral("--width"), QString::number(1400 * scale),
                              QStringLiteral("--height"), QString::number(1000 * scale),
                              QUrl::fromLocalFile(folder.filePath(QStringLiteral("page.html"))).toString()});
    QByteArray said;
    while (!said.contains(" end\n") && process.waitForReadyRead(90'000)) {
        said += process.readAllStandardOutput();
    }
    process.kill();
    process.waitForFinished(10'000);
    return said;
}

enum class Browser { chromium, firefox };

/// What a driver found on a page at this scale; null if it did not reach its end.
Json resultsOf(const QByteArray& html, const Json& expected, const char* driver, int scale,
               Browser in = Browser::chromium) {
    QByteArray first =
        "'use strict'; window.troubles = [];"
        // Chromium's virtual time draws no frames, so that callbacks for them would never come.
        "window.requestAnimationFrame = (callback) => setTimeout(() => callback(performance.now()), 16);"
        "addEventListener('error', (e) => troubles.push(e.message));"
        "addEventListener('unhandledrejection', (e) => troubles.push(String(e.reason)));"
        "addEventListener('securitypolicyviolation', (e) => troubles.push(e.violatedDirective + ' ' + e.blockedURI));";
    if (in == Browser::firefox) {
        first.replace(first.indexOf("window.requestAnimationFrame"),
                      first.indexOf("addEventListener('error'") - first.indexOf("window.requestAnimationFrame"), "");
    }
    QByteArray last = "const expected = " + QByteArray::fromStdString(expected.dump(-1, ' ', true)) + ";\n";
    last.replace("</", "<\\/");  // of a hostile name
    last += readAll(QString::fromLatin1(driver));
    const bool isFirefox = in == Browser::firefox;
    const QByteArray page = withScripts(html, first, last);
    const QByteArray dom = isFirefox ? saidInFirefox(page, scale)
                                     : domOf(page, {QStringLiteral("--force-device-scale-factor=%1").arg(scale)});
    const QByteArray before = isFirefox ? "results " : "<pre id=\"results\">";
    const qsizetype from = dom.indexOf(before);
    if (from < 0) {
        ADD_FAILURE() << "the page wrote no results: " << dom.right(2000).toStdString();
        return {};
    }
    const QByteArray encoded =
        dom.mid(from + before.size(), dom.indexOf(isFirefox ? " end" : "</pre>", from) - from - before.size());
    return Json::parse(QByteArray::fromPercentEncoding(encoded).toStdString());
}

class TimelinePageInBrowser : public TimelinePage, public testing::WithParamInterface<int> {
protected:
    /// Makes the scene of a run with a hostile name, and returns what the driver expects of its page.
    Json hostileScene();
    /// Likewise of a file without tasks.
    Json threadsAndCounters();
};

INSTANTIATE_TEST_SUITE_P(PixelRatio, TimelinePageInBrowser, testing::Values(1, 2));

void expectToHold(const Json& results, std::size_t least) {
    EXPECT_GT(results.size(), least);
    for (const Json& each : results) {
        EXPECT_TRUE(each.at("holds").get<bool>())
            << each.at("name").get<std::string>() << ": " << each.at("detail").get<std::string>();
    }
}

TEST_P(TimelinePageInBrowser, AnswersWheelPointerKeysAndButtons) {
    if (browser().isEmpty()) {
        GTEST_SKIP() << "no chromium is installed; apt-get install chromium, then run this test again";
    }
    const Json expected = hostileScene();
    expectToHold(resultsOf(timelinePageHtml(scene_), expected, PIPESCOPE_PAGE_DRIVER, GetParam()), 70);
}

TEST_P(TimelinePageInBrowser, AnswersInFirefoxToo) {
    if (firefox().isEmpty()) {
        GTEST_SKIP() << "no firefox is installed; apt-get install firefox-esr, then run this test again";
    }
    const Json expected = hostileScene();
    expectToHold(resultsOf(timelinePageHtml(scene_), expected, PIPESCOPE_PAGE_DRIVER, GetParam(), Browser::firefox),
                 70);
}

Json TimelinePageInBrowser::hostileScene() {
    SampleRun run;
    run.partitions = 3;
    load(run);
    auto hostile = std::make_shared<TraceDocument>(*document_);
    hostile->run.model = kHostile;
    hostile->notes << QString::fromUtf8(kHostile);
    use(hostile);
    scene_.theme = Theme::light;

    const TaskKey key{scene_.step, TaskKind::backward, 1, 2, -1};
    const std::vector<TaskPair>& pairs = analysis_->matching().pairs;
    const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const TaskPair& each) { return each.key == key; });
    const Slice measured = document_->measured->slice(pair->measured);
    const Slice simulated = document_->simulated->slice(pair->simulated);
    scene_.allSteps = true;
    const Json page = data();
    EXPECT_EQ(page.at("others").size(), 2U);
    Json steps = Json::array();
    for (const Json& bar : page.at("steps").at("bars")) {
        steps.push_back(bar.at("step"));
    }
    const auto isHit = [](const PageTask& each) { return each.name.starts_with("backward of micro-batch 2 "); };
    std::ptrdiff_t hits = 0;
    for (const std::size_t timeline : {std::size_t{0}, std::size_t{1}}) {
        hits += std::ranges::count_if(tasksOf(page, timeline), isHit);
    }
    const std::string name = taskName(key).toStdString();
    const std::vector<PageTask> tasks = tasksOf(page, 0);
    const auto task = std::find_if(tasks.begin(), tasks.end(),
                                   [&](const PageTask& each) { return each.name == name && each.step == scene_.step; });
    const auto text = [](const QString& from) { return from.toStdString(); };
    const std::int64_t change = (simulated.duration() - measured.duration()).count();
    const std::int64_t origin = document_->measured->step(scene_.step)->range().start;
    const std::int64_t scale = differenceScaleOf(pairs);
    const TimelineColors light = timelineColors(QPalette(Qt::white));
    const Lateness lateness = latenessOf(pair->end_change, scale);
    return {{"hostile", kHostile},
            {"task", task - tasks.begin()},
            {"twin", task->twin},
            {"step", scene_.step},
            {"steps", steps},
            {"otherStep", page.at("others").at(0).at("step")},
            {"find", "b2"},
            {"hits", hits},
            {"kind", "B backward"},
            {"color", text(styleOf(TaskKind::backward).color.name())},
            {"tip",
             {name, "kind: backward", "partition 1", "micro-batch 2", text(formatDuration(measured.duration().count())),
              text(formatDuration(measured.start.count() - origin)), text(formatDuration(simulated.duration().count())),
              text(formatDurationChange(change)),
              text(formatShareChange(static_cast<double>(change) / static_cast<double>(measured.duration().count())))}},
            {"details",
             {name, text(formatDurationChange(-pair->start_change)), text(formatDurationChange(-pair->end_change)),
              text(formatDurationChange(change))}},
            {"lateness", text(describe(lateness, scale, false))},
            {"lateColor", text(styleOf(lateness, light).color.name())}};
}

TEST_P(TimelinePageInBrowser, ShowsThreadsAndCounters) {
    if (browser().isEmpty()) {
        GTEST_SKIP() << "no chromium is installed; apt-get install chromium, then run this test again";
    }
    const Json expected = threadsAndCounters();
    expectToHold(resultsOf(timelinePageHtml(scene_), expected, PIPESCOPE_THREADS_DRIVER, GetParam()), 20);
}

TEST_P(TimelinePageInBrowser, ShowsThreadsAndCountersInFirefoxToo) {
    if (firefox().isEmpty()) {
        GTEST_SKIP() << "no firefox is installed; apt-get install firefox-esr, then run this test again";
    }
    const Json expected = threadsAndCounters();
    expectToHold(resultsOf(timelinePageHtml(scene_), expected, PIPESCOPE_THREADS_DRIVER, GetParam(), Browser::firefox),
                 20);
}

Json TimelinePageInBrowser::threadsAndCounters() {
    scene_ = threadsScene("threads_in_browser.json", kTwoThreads);
    const std::vector<std::string>& texts = scene_.document->tracks->texts;
    const auto load = static_cast<std::size_t>(std::ranges::find(texts, "load") - texts.begin());
    return {{"title", "threads_in_browser.json"},
            {"range", 1},
            {"next", 3},
            {"color", QColor::fromRgb(kRangeColors.at(rangeColorsOf(texts).at(load))).name().toStdString()},
            {"tip", {"load", "thread 1", "trainer", formatDuration(90'000).toStdString()}},
            {"details", {"load", "2, ", formatDuration(390'000).toStdString()}},
            {"counter", {"queue", "6", "−2"}},
            {"threads", 2}};
}
}  // namespace
}  // namespace pipescope

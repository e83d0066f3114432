#include "gui/document/document_loader.h"
#include "gui/document/notes_file.h"
#include "gui/document/step_history.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QDir>
#include <QFile>
#include <QImage>
#include <QProcess>
#include <QProcessEnvironment>
#include <QRegularExpression>
#include <QSet>
#include <QSettings>
#include <QTest>

#include <filesystem>

namespace pipescope {
namespace {
struct Outcome {
    int code = -1;
    QString error;
};

/// Runs a program without a display or selected platform, as on a server.
Outcome run(const QString& program, const QStringList& arguments) {
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
        environment.remove(QString::fromLatin1(name));
    }
    process.setProcessEnvironment(environment);
    process.start(program, arguments);
    if (!process.waitForFinished(40'000) || process.exitStatus() != QProcess::NormalExit) {
        return {-1, QStringLiteral("did not end by itself")};
    }
    return {process.exitCode(), QString::fromUtf8(process.readAllStandardError())};
}

Outcome view(const QStringList& arguments) {
    return run(QStringLiteral(PIPESCOPE_GUI_PROGRAM), arguments);
}

class ViewerCommand : public testing::Test {
protected:
    QString path(const std::string& name) { return QString::fromStdString(temporaryPath(name).string()); }
    QString trace() {
        writeSampleTrace(temporaryPath("command.sqlite"));
        return path("command.sqlite");
    }
    static QByteArray read(const QString& name) {
        QFile file(name);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }
};

TEST_F(ViewerCommand, RefusesNamesThatAreNotUtf8) {
    const std::string file = temporaryPath("bytes\xff.sqlite").string();
    writeSampleTrace(temporaryPath("bytes.sqlite"));
    std::filesystem::rename(temporaryPath("bytes.sqlite"), file);
    const std::string trace = this->trace().toStdString();
    const std::string program = PIPESCOPE_GUI_PROGRAM;
    // QProcess gives arguments as text.
    for (const std::string& arguments :
         {"'" + file + "' --render '" + temporaryPath("a.png").string() + "'",
          "'" + trace + "' --render '" + temporaryPath("a\xff.png").string() + "'",
          "'" + trace + "' --render '" + temporaryPath("a.png").string() + "' --baseline '" + file + "'",
          "'" + file + "'"}) {
        QFile script(path("bytes.sh"));
        ASSERT_TRUE(script.open(QIODevice::WriteOnly | QIODevice::Truncate));
        script.write(QByteArray::fromStdString("exec '" + program + "' " + arguments + "\n"));
        script.close();
        const Outcome outcome = run(QStringLiteral("sh"), {script.fileName()});
        EXPECT_EQ(outcome.code, 1) << arguments;
        EXPECT_TRUE(outcome.error.contains(QStringLiteral("\\xff"))) << outcome.error.toStdString();
        EXPECT_TRUE(outcome.error.contains(QStringLiteral("is a name that is not UTF-8")))
            << outcome.error.toStdString();
        EXPECT_FALSE(QFile::exists(path("a.png")));
    }
    std::filesystem::remove(file);  // Qt cannot
}

TEST_F(ViewerCommand, DrawsARunBeforeInPlaceOfTheSimulation) {
    writeSampleTrace(temporaryPath("before.sqlite"), {.profile = false, .forward_ns = 20'000'000});
    const QString plain = path("plain.png");
    const QString compared = path("compared.png");
    ASSERT_EQ(view({trace(), QStringLiteral("--render"), plain}).code, 0);
    const Outcome outcome =
        run(QStringLiteral(PIPESCOPE_PROGRAM),
            {QStringLiteral("view"), trace(), QStringLiteral("--render"), compared, QStringLiteral("--mode"),
             QStringLiteral("difference"), QStringLiteral("--baseline"), path("before.sqlite")});
    ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
    EXPECT_NE(read(compared), read(plain));
    // The run before, which takes twice as long, is not in the picture of the difference: it fits the run after.
    const auto document = loadTrace(trace());
    const std::int32_t step = typicalStep(*document);
    const std::int64_t origin = document->measured->step(step)->range().start;
    const TimeRange shown = measuredRange(*document, step);
    const QString fitted = path("fitted.png");
    ASSERT_EQ(view({trace(), QStringLiteral("--render"), fitted, QStringLiteral("--mode"), QStringLiteral("difference"),
                    QStringLiteral("--baseline"), path("before.sqlite"),
                    QStringLiteral("--range=%1:%2").arg(shown.start - origin).arg(shown.end - origin)})
                  .code,
              0);
    EXPECT_EQ(read(compared), read(fitted));
    const QString page = path("compared.html");
    ASSERT_EQ(
        view({trace(), QStringLiteral("--render"), page, QStringLiteral("--baseline"), path("before.sqlite")}).code, 0);
    EXPECT_TRUE(read(page).contains("\"twoRuns\":true"));
    EXPECT_TRUE(read(page).contains("BEFORE"));
    EXPECT_TRUE(read(page).contains("After and before"));
    EXPECT_EQ(view({QStringLiteral("--baseline"), path("before.sqlite")}).code, 2) << "of no run";
}

TEST_F(ViewerCommand, DrawsAPictureOfTheAskedSizeWithoutADisplay) {
    const QString out = path("drawn.png");
    const Outcome outcome =
        view({trace(), QStringLiteral("--render"), out, QStringLiteral("--size"), QStringLiteral("1000x600")});
    ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
    EXPECT_EQ(outcome.error, QString());
    EXPECT_EQ(QImage(out).size(), QSize(1000, 600));
}

/// Opens a window on the files, with its own settings below `home`.
void startWindow(QProcess& window, const QString& home, const QString& program, const QStringList& arguments) {
    QDir(home).removeRecursively();
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("offscreen"));
    environment.insert(QStringLiteral("XDG_CONFIG_HOME"), home);
    window.setProcessEnvironment(environment);
    window.start(program, arguments);
    ASSERT_TRUE(window.waitForStarted(40'000));
}

TEST_F(ViewerCommand, OpensAnEmptyWindowWithoutAFile) {
    QProcess window;
    startWindow(window, path("none"), QStringLiteral(PIPESCOPE_PROGRAM), {QStringLiteral("view")});
    EXPECT_FALSE(window.waitForFinished(1'500)) << window.readAllStandardError().toStdString();
    window.kill();
    EXPECT_TRUE(window.waitForFinished(40'000));
}

class OpensSeveral : public ViewerCommand, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(ViewerCommand, OpensSeveral, testing::Bool());

TEST_P(OpensSeveral, FilesEachInATab) {
    const bool throughPipescope = GetParam();
    const QString home = path(throughPipescope ? "several_cli" : "several_gui");
    QStringList files;
    for (const char* name : {"several_a.sqlite", "several_b.sqlite", "several_c.sqlite"}) {
        writeSampleTrace(temporaryPath(name));
        files << path(name);
    }
    QProcess window;
    startWindow(window, home,
                throughPipescope ? QStringLiteral(PIPESCOPE_PROGRAM) : QStringLiteral(PIPESCOPE_GUI_PROGRAM),
                throughPipescope ? QStringList{QStringLiteral("view")} + files : files);
    // Each displayed file becomes a recent file.
    const auto recent = [&] {
        const QSettings settings(home + QStringLiteral("/PipeScope/viewer.conf"), QSettings::NativeFormat);
        QStringList names = settings.value(QStringLiteral("files/recent")).toStringList();
        names.sort();
        return names;
    };
    EXPECT_TRUE(QTest::qWaitFor([&] { return recent() == files; }, 40'000))
        << recent().join(QLatin1Char(' ')).toStdString();
    EXPECT_EQ(window.state(), QProcess::Running);
    window.kill();
    EXPECT_TRUE(window.waitForFinished(40'000));
}

TEST_F(ViewerCommand, DrawsTheSamePictureTwice) {
    const QString file = trace();
    for (const QString& ending : {QStringLiteral("png"), QStringLiteral("svg"), QStringLiteral("pdf")}) {
        const QString first = path("first.") + ending;
        const QString second = path("second.") + ending;
        ASSERT_EQ(view({file, QStringLiteral("--render"), first, QStringLiteral("--force")}).code, 0);
        ASSERT_EQ(view({file, QStringLiteral("--render"), second, QStringLiteral("--force")}).code, 0);
        EXPECT_EQ(read(first), read(second)) << ending.toStdString();
        EXPECT_FALSE(read(first).isEmpty());
    }
}

TEST_F(ViewerCommand, DrawsEachModeAndRangeAsAskedAndTheSameTwice) {
    const QString file = trace();
    QSet<QByteArray> pictures;
    const QList<QStringList> wanted{{},
                                    {QStringLiteral("--mode=overlay")},
                                    {QStringLiteral("--mode=difference")},
                                    {QStringLiteral("--range=5ms:20ms")},
                                    {QStringLiteral("--range=0:900")},
                                    {QStringLiteral("--align=step"), QStringLiteral("--critical-path")},
                                    {QStringLiteral("--step=2")}};
    for (const QStringList& options : wanted) {
        QByteArray first;
        for (int i = 0; i < 2; ++i) {
            const QString out = path("mode.png");
            const Outcome outcome =
                view(QStringList{file, QStringLiteral("--render"), out, QStringLiteral("--force")} + options);
            ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
            first = i == 0 ? read(out) : first;
            EXPECT_EQ(read(out), first) << options.join(QLatin1Char(' ')).toStdString();
        }
        pictures.insert(first);
    }
    EXPECT_EQ(pictures.size(), wanted.size());  // each option changes something
}

TEST_F(ViewerCommand, DrawsOnlyThePartOfARangeThatIsThereAndSaysSo) {
    const QString file = trace();
    const auto drawn = [&](const QString& range, QByteArray& picture) {
        const QString out = path("range.png");
        const Outcome outcome = view(
            {file, QStringLiteral("--render"), out, QStringLiteral("--force"), QStringLiteral("--range=") + range});
        picture = read(out);
        return outcome;
    };
    QByteArray inside;
    QByteArray across;
    const Outcome whole = drawn(QStringLiteral("0:1us"), inside);
    EXPECT_EQ(whole.code, 0);
    EXPECT_EQ(whole.error, QString());
    const Outcome partly = drawn(QStringLiteral("20ms:900s"), across);
    EXPECT_EQ(partly.code, 0);
    EXPECT_TRUE(partly.error.contains(QStringLiteral("--range is '20ms:900s', but the timelines are from ")))
        << partly.error.toStdString();
    EXPECT_EQ(partly.error.count(QLatin1Char('\n')), 1);
    EXPECT_NE(across, inside);
    for (const char* outside : {"900s:901s", "-9s:-8s", "7e18ns:8e18ns"}) {
        const Outcome outcome = drawn(QString::fromLatin1(outside), inside);
        EXPECT_EQ(outcome.code, 2) << outside;
        EXPECT_TRUE(outcome.error.contains(QStringLiteral("choose a part of that"))) << outcome.error.toStdString();
    }
}

TEST_F(ViewerCommand, RefusesAStepThatIsNoNumberInOneSentence) {
    for (const char* step : {"x", "1.5", "-1", "99999999999", ""}) {
        const Outcome outcome = view({trace(), QStringLiteral("--render"), path("never.png"),
                                      QStringLiteral("--step=") + QString::fromLatin1(step)});
        EXPECT_EQ(outcome.code, 2) << step;
        EXPECT_EQ(outcome.error.count(QLatin1Char('\n')), 1) << outcome.error.toStdString();
        EXPECT_TRUE(outcome.error.contains(QStringLiteral("--step"))) << outcome.error.toStdString();
    }
    const Outcome unknown = view({QStringLiteral("--nonsense")});
    EXPECT_EQ(unknown.error.count(QLatin1Char('\n')), 1) << unknown.error.toStdString();
}

TEST_F(ViewerCommand, RefusesAModeThatNeedsTwoTimelines) {
    SampleRun run;
    run.profile = false;
    writeSampleTrace(temporaryPath("single.sqlite"), run);
    const Outcome outcome = view(
        {path("single.sqlite"), QStringLiteral("--render"), path("never.png"), QStringLiteral("--mode=difference")});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(outcome.error.contains(QStringLiteral("only one timeline"))) << outcome.error.toStdString();
}

TEST_F(ViewerCommand, ScalesWithTheDesktop) {
    for (const auto& [factor, size] :
         {std::pair{"1", QSize(1280, 800)}, {"1.5", QSize(1920, 1200)}, {"2", QSize(2560, 1600)}}) {
        qputenv("QT_SCALE_FACTOR", factor);
        const QString out = path("scaled.png");
        const Outcome outcome = view({trace(), QStringLiteral("--render"), out, QStringLiteral("--size"),
                                      QStringLiteral("1280x800"), QStringLiteral("--force")});
        qunsetenv("QT_SCALE_FACTOR");
        ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
        EXPECT_EQ(QImage(out).size(), size) << factor;
    }
}

TEST_F(ViewerCommand, WritesThePageAsTheReportToo) {
    const QString report = path("report.html");
    const QString page = path("rendered.html");
    for (const auto& [option, out] : {std::pair("--report", report), {"--render", page}}) {
        const Outcome outcome = view({trace(), QLatin1String(option), out});
        ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
    }
    EXPECT_TRUE(read(report).contains("Lost records"));
    EXPECT_EQ(read(report), read(page));
    EXPECT_EQ(view({trace(), QStringLiteral("--report"), report}).code, 1);  // it exists
    const Outcome sized =
        view({trace(), QStringLiteral("--report"), path("sized.html"), QStringLiteral("--size=800x600")});
    EXPECT_EQ(sized.code, 2);
    EXPECT_TRUE(sized.error.contains(QStringLiteral("sized.html"))) << sized.error.toStdString();
}

TEST_F(ViewerCommand, RefusesAReportThatIsNoPageAndSaysHowToGetAPdf) {
    const Outcome outcome = view({trace(), QStringLiteral("--report"), path("wanted.pdf")});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(
        outcome.error.contains(QStringLiteral("wanted.pdf' does not name an interactive page: the name must end "
                                              "in .html; write ")))
        << outcome.error.toStdString();
    EXPECT_TRUE(outcome.error.contains(QStringLiteral("wanted.html, and print it from a browser for a PDF")))
        << outcome.error.toStdString();
}

TEST_F(ViewerCommand, WritesAnInteractivePageAsAskedAndTheSameTwice) {
    const QString file = trace();
    const QString out = path("page.html");
    QSet<QByteArray> pages;
    const QList<QStringList> wanted{{},
                                    {QStringLiteral("--mode=difference")},
                                    {QStringLiteral("--range=5ms:20ms")},
                                    {QStringLiteral("--all")},
                                    {QStringLiteral("--align=step")},
                                    {QStringLiteral("--critical-path")},
                                    {QStringLiteral("--theme=dark")},
                                    {QStringLiteral("--step=2")}};
    for (const QStringList& options : wanted) {
        QByteArray first;
        for (int i = 0; i < 2; ++i) {
            const Outcome outcome =
                view(QStringList{file, QStringLiteral("--render"), out, QStringLiteral("--force")} + options);
            ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
            EXPECT_EQ(outcome.error, QString());
            first = i == 0 ? read(out) : first;
            EXPECT_EQ(read(out), first) << options.join(QLatin1Char(' ')).toStdString();
        }
        EXPECT_TRUE(first.startsWith("<!DOCTYPE html>"));
        pages.insert(first);
    }
    EXPECT_EQ(pages.size(), wanted.size());  // each option changes something
    const Outcome there = view({file, QStringLiteral("--render"), out});
    EXPECT_EQ(there.code, 1);
    EXPECT_TRUE(there.error.contains(QStringLiteral("--force"))) << there.error.toStdString();
    const Outcome sized =
        view({file, QStringLiteral("--render"), path("sized.html"), QStringLiteral("--size=800x600")});
    EXPECT_EQ(sized.code, 2);
    EXPECT_TRUE(sized.error.contains(QStringLiteral("leave --size out"))) << sized.error.toStdString();
    EXPECT_FALSE(QFile::exists(path("sized.html")));
    const QString program = QStringLiteral(PIPESCOPE_PROGRAM);
    ASSERT_EQ(run(program, {QStringLiteral("view"), file, QStringLiteral("--render"), path("page_cli.html"),
                            QStringLiteral("--step=2")})
                  .code,
              0);
    EXPECT_EQ(read(path("page_cli.html")), read(out));
}

TEST_F(ViewerCommand, ReplacesAPictureOnlyWhenForced) {
    const QString out = path("there.png");
    QFile file(out);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write("precious");
    file.close();
    const Outcome refused = view({trace(), QStringLiteral("--render"), out});
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(refused.error.contains(QStringLiteral("--force"))) << refused.error.toStdString();
    EXPECT_EQ(read(out), QByteArray("precious"));
    EXPECT_EQ(view({trace(), QStringLiteral("--render"), out, QStringLiteral("--force")}).code, 0);
    EXPECT_NE(read(out), QByteArray("precious"));
}

TEST_F(ViewerCommand, RefusesWrongUsageWithCodeTwo) {
    const QString file = trace();
    const QString out = path("never.png");
    const QList<QStringList> wrong{
        {file, QStringLiteral("--render"), path("never.bmp")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--size"), QStringLiteral("10x10")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--size"), QStringLiteral("400x200")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--size"), QStringLiteral("big")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--theme"), QStringLiteral("pink")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--mode=sideways")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--align=task")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--range=5ms")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--range=5ms:2ms")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--range=soon:late")},
        {file, QStringLiteral("--render"), out, QStringLiteral("--range=1ms:2ms"), QStringLiteral("--all")},
        {file, file, QStringLiteral("--render"), out},
        {QStringLiteral("--render"), out},
        {QStringLiteral("--nonsense")}};
    for (const QStringList& arguments : wrong) {
        const Outcome outcome = view(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments.join(QLatin1Char(' ')).toStdString();
        EXPECT_FALSE(outcome.error.isEmpty());
    }
    EXPECT_FALSE(QFile::exists(out));
}

TEST_F(ViewerCommand, SaysWhatIsWrongWithARange) {
    const QString file = trace();
    const std::pair<const char*, const char*> wrong[] = {{"--range=2ms:nan", "two times since the start of the step"},
                                                         {"--range=inf:2ms", "two times since the start"},
                                                         {"--range=2ms:--3ms", "two times since the start"},
                                                         {"--range=:3ms", "two times since the start"},
                                                         {"--range=2ms:2ms", "give a later end"},
                                                         {"--range=5ms:2ms", "swap the two times"},
                                                         {"--range=1ms:2parsecs", "'parsecs' is none of the units"}};
    for (const auto& [range, says] : wrong) {
        const Outcome outcome = view({file, QStringLiteral("--render"), path("never.png"), QString::fromLatin1(range)});
        EXPECT_EQ(outcome.code, 2) << range;
        EXPECT_TRUE(outcome.error.contains(QString::fromLatin1(says))) << range << ": " << outcome.error.toStdString();
        EXPECT_FALSE(outcome.error.contains(QStringLiteral("0 or more"))) << "a time may lie before the step";
    }
}

TEST_F(ViewerCommand, FailsWithCodeOneForWhatIsNoTrace) {
    const Outcome missing = view({QStringLiteral("/nowhere.sqlite"), QStringLiteral("--render"), path("never.png")});
    EXPECT_EQ(missing.code, 1);
    EXPECT_TRUE(missing.error.contains(QStringLiteral("/nowhere.sqlite")));
    const Outcome step =
        view({trace(), QStringLiteral("--render"), path("never.png"), QStringLiteral("--step"), QStringLiteral("99")});
    EXPECT_EQ(step.code, 1);
    EXPECT_TRUE(step.error.contains(QStringLiteral("99")));
}

TEST_F(ViewerCommand, SaysThatAWindowNeedsADisplay) {
    const Outcome outcome = view({trace()});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(outcome.error.contains(QStringLiteral("--render"))) << outcome.error.toStdString();
}

TEST_F(ViewerCommand, GetsAllThatPipescopeViewIsAskedFor) {
    const QString file = trace();
    const auto options = [&](const QString& out) {
        return QStringList{file,
                           QStringLiteral("--render"),
                           out,
                           QStringLiteral("--size"),
                           QStringLiteral("1100x700"),
                           QStringLiteral("--step"),
                           QStringLiteral("1"),
                           QStringLiteral("--range=-1ms:30ms"),
                           QStringLiteral("--mode"),
                           QStringLiteral("difference"),
                           QStringLiteral("--align"),
                           QStringLiteral("step"),
                           QStringLiteral("--critical-path"),
                           QStringLiteral("--theme"),
                           QStringLiteral("dark")};
    };
    ASSERT_EQ(view(options(path("asked_gui.png"))).code, 0);
    const QString program = QStringLiteral(PIPESCOPE_PROGRAM);
    const Outcome forwarded = run(program, QStringList{QStringLiteral("view")} + options(path("asked_cli.png")));
    ASSERT_EQ(forwarded.code, 0) << forwarded.error.toStdString();
    EXPECT_EQ(QImage(path("asked_cli.png")).size(), QSize(1100, 700));
    EXPECT_EQ(read(path("asked_cli.png")), read(path("asked_gui.png")));

    EXPECT_EQ(run(program, {QStringLiteral("view"), file, file, QStringLiteral("--render"), path("two.png")}).code, 2);
    EXPECT_EQ(run(program, {QStringLiteral("view"), QStringLiteral("--render"), path("two.png")}).code, 2);
    ASSERT_EQ(view({file, QStringLiteral("--render"), path("all_gui.png"), QStringLiteral("--all")}).code, 0);
    const QStringList all{QStringLiteral("view"),     file,
                          QStringLiteral("--render"), path("all_cli.png"),
                          QStringLiteral("--all"),    QStringLiteral("--report"),
                          path("all_cli.html"),       QStringLiteral("--force")};
    ASSERT_EQ(run(program, all).code, 0);
    EXPECT_EQ(read(path("all_cli.png")), read(path("all_gui.png")));
    EXPECT_TRUE(read(path("all_cli.html")).startsWith("<!DOCTYPE html>"));
    EXPECT_EQ(run(program, {QStringLiteral("view"), file, QStringLiteral("--render"), path("bad.png"),
                            QStringLiteral("--mode"), QStringLiteral("sideways")})
                  .code,
              2);
}

// A trace that joins others is a temporary file. Their notes are where a window keeps them.
TEST_F(ViewerCommand, ShowsTheNotesOfTheTraceThatItIsToldOf) {
    const QString kept = path("kept.sqlite");
    writeNotes(kept, {{0, QStringLiteral("slow here"), 1'000'000'000}});
    const QString page = path("noted.html");
    ASSERT_EQ(view({trace(), QStringLiteral("--notes-of"), kept, QStringLiteral("--render"), page}).code, 0);
    EXPECT_TRUE(read(page).contains("slow here"));
    QFile damaged(notesPathOf(kept));
    ASSERT_TRUE(damaged.open(QIODevice::WriteOnly));
    damaged.write("{");
    damaged.close();
    const Outcome outcome = view({trace(), QStringLiteral("--notes-of"), kept, QStringLiteral("--render"), page,
                                  QStringLiteral("--report"), path("noted.r.html"), QStringLiteral("--force")});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(outcome.error.contains(QStringLiteral("has no readable notes"))) << outcome.error.toStdString();
    EXPECT_TRUE(read(page).contains("has no readable notes"));
    EXPECT_TRUE(read(path("noted.r.html")).contains("has no readable notes"));
}

TEST_F(ViewerCommand, NamesASizeThatIsNotRefused) {
    const auto drawn = [&](const QString& size) {
        return view({trace(), QStringLiteral("--render"), path("small.png"), QStringLiteral("--force"),
                     QStringLiteral("--size"), size});
    };
    const Outcome refused = drawn(QStringLiteral("330x330"));
    ASSERT_EQ(refused.code, 2);
    static const QRegularExpression size(QStringLiteral("at least (\\d+x\\d+);"));
    const QString named = size.match(refused.error).captured(1);
    EXPECT_EQ(drawn(named).code, 0) << named.toStdString();
}

TEST_F(ViewerCommand, ComputesNoAdviceForAPictureOfManyForwards) {
    const auto holdsAdvice = [this](int chunks) {
        SampleRun run;
        run.chunks = chunks;
        writeSimulatedTrace(temporaryPath("many.sqlite"), run);
        const QString out = path("many.svg");
        const Outcome outcome = view({path("many.sqlite"), QStringLiteral("--render"), out, QStringLiteral("--size"),
                                      QStringLiteral("2600x1200"), QStringLiteral("--force")});
        EXPECT_EQ(outcome.code, 0) << outcome.error.toStdString();
        return read(out).contains("would save");
    };
    EXPECT_TRUE(holdsAdvice(4));
    EXPECT_FALSE(holdsAdvice(5'200)) << "two partitions";
}

TEST_F(ViewerCommand, DrawsTheSamePictureOfANoisyTraceEveryTime) {
    SampleRun run;
    run.cv = 0.2;
    writeSimulatedTrace(temporaryPath("noisy.sqlite"), run);
    QByteArray first;
    for (int k = 0; k < 3; ++k) {
        const QString out = path("noisy" + std::to_string(k) + ".png");
        const Outcome outcome = view({path("noisy.sqlite"), QStringLiteral("--render"), out});
        ASSERT_EQ(outcome.code, 0) << outcome.error.toStdString();
        first = k == 0 ? read(out) : first;
        EXPECT_EQ(read(out), first);
    }
}
}  // namespace
}  // namespace pipescope

#include "base/error.h"
#include "gui/document/document_loader.h"
#include "gui/style/message_bar.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"
#include "tests/gui/window/nsys_export.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QSignalSpy>

#include <fstream>
#include <random>
#include <sstream>

namespace pipescope {
namespace {
std::string bytesOf(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Opens damaged files like a user, and counts the results: a displayed document or a message. A crash, another
/// exception or a hang is a failure.
class DamagedFile : public testing::Test {
protected:
    void SetUp() override {
        writeSampleTrace(sound_);
        window_.resize(900, 600);
        window_.show();
    }

    void open(const std::filesystem::path& path, const std::string& what) {
        SCOPED_TRACE(what);
        try {
            window_.files().setDocument(loadTrace(QString::fromStdString(path.string())));
            window_.page()->axis().showAll();
            window_.page()->axis().zoom(0.5, 1e-3);
            QApplication::processEvents();
            window_.grab();
            ++shown_;
        } catch (const Error& error) {
            EXPECT_STRNE(error.what(), "");
            ++refused_;
        } catch (const std::exception& error) {
            ADD_FAILURE() << "an error that is not ours: " << error.what();
        }
        if (window_.page() != nullptr) {
            window_.files().closePage(window_.page());
        }
    }

    int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

    const std::filesystem::path sound_ = temporaryPath("sound.sqlite");
    const std::filesystem::path damaged_ = temporaryPath("damaged.sqlite");
    std::mt19937 random_{20240607};
    MainWindow window_{nullptr};
    int shown_ = 0;
    int refused_ = 0;
};

TEST_F(DamagedFile, TruncatedAnywhereIsShownOrRefused) {
    const std::string bytes = bytesOf(sound_);
    for (int i = 0; i < 40; ++i) {
        const std::size_t length = random_() % bytes.size();
        write(damaged_, bytes.substr(0, length));
        open(damaged_, "truncated to " + std::to_string(length));
    }
    EXPECT_GT(refused_, 0);
}

TEST_F(DamagedFile, WithFlippedBitsIsShownOrRefused) {
    const std::string bytes = bytesOf(sound_);
    for (int i = 0; i < 100; ++i) {
        std::string wrong = bytes;
        const int flips = 1 << number(8);
        for (int k = 0; k < flips; ++k) {
            wrong[random_() % wrong.size()] ^= static_cast<char>(1 << number(8));
        }
        write(damaged_, wrong);
        open(damaged_, "case " + std::to_string(i) + ", " + std::to_string(flips) + " bits");
    }
    EXPECT_GT(shown_ + refused_, 0);
}

TEST_F(DamagedFile, WithPagesOfNoiseIsShownOrRefused) {
    const std::string bytes = bytesOf(sound_);
    constexpr std::size_t kPage = 4096;
    for (int i = 0; i < 40; ++i) {
        std::string wrong = bytes;
        const std::size_t page = random_() % (wrong.size() / kPage);
        for (std::size_t k = 0; k < kPage; ++k) {
            wrong[page * kPage + k] = static_cast<char>(number(256));
        }
        write(damaged_, wrong);
        open(damaged_, "page " + std::to_string(page));
    }
}

TEST_F(DamagedFile, WithWrongTablesAndValuesIsShownOrRefused) {
    const char* const changes[] = {
        "DROP TABLE PIPESCOPE_TASK",
        "DROP TABLE PIPESCOPE_STEP",
        "DROP TABLE PIPESCOPE_MEMORY",
        "DROP TABLE PIPESCOPE_PROFILE",
        "DROP TABLE PIPESCOPE_RUN",
        "DROP TABLE PIPESCOPE_DROPS",
        "DROP TABLE NVTX_EVENTS",
        "DROP TABLE StringIds",
        "DELETE FROM PIPESCOPE_TASK",
        "DELETE FROM PIPESCOPE_STEP",
        "DELETE FROM PIPESCOPE_RUN WHERE key = 'lanes'",
        "DELETE FROM PIPESCOPE_RUN WHERE key = 'configuration'",
        "ALTER TABLE PIPESCOPE_TASK RENAME COLUMN lane TO lain",
        "ALTER TABLE PIPESCOPE_MEMORY RENAME COLUMN peak TO pique",
        "UPDATE PIPESCOPE_TASK SET lane = -1",
        "UPDATE PIPESCOPE_TASK SET lane = 9223372036854775807",
        "UPDATE PIPESCOPE_TASK SET lane = 70000 WHERE id % 3 = 0",
        "UPDATE PIPESCOPE_TASK SET lane = NULL",
        "UPDATE PIPESCOPE_TASK SET kind = 'nonsense'",
        "UPDATE PIPESCOPE_TASK SET kind = 7",
        "UPDATE PIPESCOPE_TASK SET partition = -5, microBatch = 99999999",
        "UPDATE PIPESCOPE_TASK SET step = -2147483648",
        "UPDATE PIPESCOPE_TASK SET step = id * 1000000",
        "UPDATE PIPESCOPE_TASK SET start = 9223372036854775807",
        "UPDATE PIPESCOPE_TASK SET start = -9223372036854775807 - 1",
        "UPDATE PIPESCOPE_TASK SET end = 9223372036854775807",
        "UPDATE PIPESCOPE_TASK SET start = -9223372036854775807 - 1, end = 9223372036854775807",
        "UPDATE PIPESCOPE_TASK SET end = start - 1000000",
        "UPDATE PIPESCOPE_TASK SET end = start",
        "UPDATE PIPESCOPE_TASK SET start = 0, end = 1000000000",
        "UPDATE PIPESCOPE_TASK SET start = 'soon', end = 'late'",
        "UPDATE PIPESCOPE_TASK SET start = 1e300",
        "UPDATE PIPESCOPE_TASK SET bytes = -1",
        "UPDATE PIPESCOPE_TASK SET source = 'dreamt'",
        "UPDATE PIPESCOPE_TASK SET source = 'simulated'",
        "UPDATE PIPESCOPE_STEP SET start = 9223372036854775807, wallEnd = -1",
        "UPDATE PIPESCOPE_STEP SET warmup = 1",
        "UPDATE PIPESCOPE_STEP SET step = 'first', trainingLoss = 'small'",
        "UPDATE PIPESCOPE_MEMORY SET lane = 12345678",
        "UPDATE PIPESCOPE_MEMORY SET lane = -1",
        "UPDATE PIPESCOPE_MEMORY SET allocated = 9223372036854775807, peak = -9223372036854775807",
        "UPDATE PIPESCOPE_MEMORY SET time = 9223372036854775807",
        "UPDATE PIPESCOPE_MEMORY SET time = -time",
        "UPDATE PIPESCOPE_RUN SET value = '{' WHERE key = 'configuration'",
        "UPDATE PIPESCOPE_RUN SET value = '[]' WHERE key = 'configuration'",
        "UPDATE PIPESCOPE_RUN SET value = '7' WHERE key = 'lanes'",
        "UPDATE PIPESCOPE_RUN SET value = '[{\"name\": 3}, null]' WHERE key = 'lanes'",
        "UPDATE PIPESCOPE_RUN SET value = x'ff00fe' WHERE key = 'model'",
        "UPDATE PIPESCOPE_RUN SET value = replace(value, '\"chunks\": 4', '\"chunks\": 4000000000') WHERE key = "
        "'configuration'",
        "UPDATE PIPESCOPE_RUN SET value = replace(value, '\"batch\"', '\"botch\"') WHERE key = 'configuration'",
        "UPDATE PIPESCOPE_PROFILE SET profile = 'NaN'",
        "UPDATE PIPESCOPE_PROFILE SET profile = '{\"layers\": []}'",
        "UPDATE PIPESCOPE_PROFILE SET profile = replace(profile, '10000000', '1e308')",
        "UPDATE PIPESCOPE_PROFILE SET profile = replace(profile, '10000000', '-1')",
        "UPDATE PIPESCOPE_PROFILE SET profile = replace(profile, '67108864', '9223372036854775807')",
        "UPDATE PIPESCOPE_DROPS SET dropped = -5",
        "INSERT INTO PIPESCOPE_DROPS (source, thread, recorded, dropped, truncated, openAtExit) "
        "VALUES ('nvtx', 1, 9223372036854775807, 9223372036854775807, 0, 0)",
        "INSERT INTO PIPESCOPE_DIAGNOSTIC (severity, source, text) VALUES ('warning', x'ff', x'80')",
        "PRAGMA user_version = 99"};
    const std::string bytes = bytesOf(sound_);
    for (const char* change : changes) {
        write(damaged_, bytes);
        {
            SQLite::Database db(damaged_, SQLite::OPEN_READWRITE);
            try {
                db.exec(change);
            } catch (const SQLite::Exception& error) {
                ADD_FAILURE() << change << ": " << error.what();
            }
        }
        open(damaged_, change);
    }
    EXPECT_GT(shown_, 10);
    EXPECT_GT(refused_, 5);
}

TEST_F(DamagedFile, OfNsysIsShownOrRefused) {
    const std::string bytes = bytesOf(writeNsysExport("sound_nsys.sqlite"));
    write(damaged_, bytes);
    open(damaged_, "sound");
    ASSERT_EQ(shown_, 1);
    for (int i = 0; i < 40; ++i) {
        std::string wrong = bytes;
        for (int flips = 1 << number(8); flips > 0; --flips) {
            wrong[random_() % wrong.size()] ^= static_cast<char>(1 << number(8));
        }
        if (i % 4 == 0) {
            wrong.resize(random_() % wrong.size());
        }
        write(damaged_, wrong);
        open(damaged_, "nsys " + std::to_string(i));
    }
    EXPECT_GT(refused_, 10);
    const int before = shown_;
    const char* const changes[] = {
        "DROP TABLE StringIds",
        "DROP TABLE NVTX_EVENTS",
        "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME",
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        "DELETE FROM StringIds",
        "DELETE FROM NVTX_EVENTS",
        "UPDATE StringIds SET value = x'ff00fe'",
        "UPDATE NVTX_EVENTS SET start = 9223372036854775807, end = -9223372036854775807",
        "UPDATE NVTX_EVENTS SET end = NULL",
        "UPDATE NVTX_EVENTS SET uint64Value = 9223372036854775807",
        "UPDATE NVTX_EVENTS SET uint64Value = 'task'",
        "UPDATE NVTX_EVENTS SET globalTid = -1",
        "UPDATE NVTX_EVENTS SET textId = 4711, domainId = 'none'",
        "UPDATE NVTX_EVENTS SET eventType = 60",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL, globalTid = 'x'",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775807",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = -1",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 9223372036854775807, streamId = -5",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET shortName = 1e300",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN correlationId TO correlation",
        "ALTER TABLE NVTX_EVENTS RENAME COLUMN text TO words"};
    for (const char* change : changes) {
        write(damaged_, bytes);
        SQLite::Database(damaged_, SQLite::OPEN_READWRITE).exec(change);
        open(damaged_, change);
    }
    EXPECT_GT(shown_ - before, 5);
}

TEST_F(DamagedFile, IsToldInTheBarWhateverItWasMeantToBe) {
    const std::string own = bytesOf(sound_);
    const std::string nsys = bytesOf(writeNsysExport("bar_nsys.sqlite"));
    const std::string chrome = R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur")";
    const std::string profile = to_json(sampleProfile({})).substr(0, 200);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(sound_.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"cut.sqlite", own.substr(0, 5000)},
                                      {"cut_nsys.sqlite", nsys.substr(0, 5000)},
                                      {"cut_chrome.json", chrome},
                                      {"cut_profile.json", profile},
                                      {"empty.sqlite", ""}}) {
        const auto path = temporaryPath(name);
        write(path, bytes);
        window_.messages().hide();
        QSignalSpy failed(&window_.files(), &FileTabs::failed);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(failed.wait(kPatience)) << name;
        EXPECT_TRUE(window_.messages().isVisible()) << name;
        EXPECT_TRUE(window_.messages().text().contains(QString::fromStdString(name)))
            << window_.messages().text().toStdString();
        EXPECT_EQ(window_.files().pages().size(), 1) << "what was open stays, alone";
    }
}

TEST_F(DamagedFile, WithWrongJsonIsShownOrRefused) {
    const std::string profile = to_json(sampleProfile({}));
    const std::string chrome =
        R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3, "cat": "kernel",)"
        R"( "args": {"correlation": 4}}, {"ph": "B", "name": "b", "pid": 1, "tid": 2, "ts": 11},)"
        R"( {"ph": "E", "pid": 1, "tid": 2, "ts": 20}, {"ph": "C", "name": "c", "pid": 1, "ts": 5, "args": {"v": 1}}]})";
    const char* const tokens[] = {
        "null", "-1",       "1e400", "NaN",     "[]",     "{}",   "\"\"",  "9223372036854775808",
        "true", "[[[[[[[[", "}",     "\\u0000", "\"ph\"", "-0.0", "1e-400"};
    const auto json = temporaryPath("damaged.json");
    for (int i = 0; i < 120; ++i) {
        std::string text = i % 2 == 0 ? profile : chrome;
        for (int k = number(3); k >= 0; --k) {
            const std::size_t at = random_() % text.size();
            switch (number(4)) {
                case 0: text.erase(at, 1 + random_() % 40); break;
                case 1: text.insert(at, tokens[number(static_cast<int>(std::size(tokens)))]); break;
                case 2: {
                    const std::size_t digit = text.find_first_of("0123456789", at);
                    if (digit != std::string::npos) {
                        text.replace(digit, 1, tokens[number(static_cast<int>(std::size(tokens)))]);
                    }
                    break;
                }
                default: text.resize(std::max<std::size_t>(1, at)); break;
            }
            if (text.empty()) {
                text = "{";
            }
        }
        write(json, text);
        open(json, "json " + std::to_string(i));
    }
    write(json, std::string(200'000, '['));
    open(json, "deeply nested");
    write(json, "");
    open(json, "empty");
    EXPECT_GT(refused_, 20);
}
}  // namespace
}  // namespace pipescope

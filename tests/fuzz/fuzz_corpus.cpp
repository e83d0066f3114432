// Writes some valid inputs for each fuzz target: fuzz_corpus FOLDER creates FOLDER/TARGET/.

#include "hardware/device_catalogue.h"
#include "profiler/profile/profile_file.h"
#include "save/training_state.h"
#include "tests/fuzz/fuzzed_trace.h"
#include "tests/temporary_folder.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <zlib.h>

#include <iostream>
#include <sstream>

namespace pipescope {
namespace {
constexpr const char* kProfile = R"({"format": "pipescope.profile", "version": 1, "model": "chain", "samples": [1, 2],
  "dtype": "float32", "host_cores": 2, "layers": [
    {"name": "a", "forward_ns": [10, 20], "backward_ns": [20, 40], "output_bytes": [8, 16], "parameter_bytes": 4,
     "stash": {"s": [4, 8]},
     "tape": [null, {"blocks": [["output", 8], ["own", 64]], "forward": [2, 1], "backward": [-2]}]},
    {"name": "b", "forward_ns": [10, 20], "backward_ns": [20, 40], "output_bytes": [8, 16], "flops": [100, 200],
     "pop": ["s"]}]})";
constexpr const char* kDevices = R"({"format": "pipescope.devices", "version": 1, "devices": [
  {"name": "A", "flops_per_second": {"float32": 1e12, "bfloat16": 2e12}, "memory_bytes": 16000000000,
   "memory_bytes_per_second": 9e11, "link_bytes_per_second": 1e10, "link_latency_ns": 5000, "launch_ns": 4000,
   "compute_efficiency": 0.5, "memory_efficiency": 0.8, "link_efficiency": 0.7, "price_per_hour": 1.5,
   "source": "made up"}]})";
constexpr const char* kCluster = R"({"format": "pipescope.cluster", "version": 1, "name": "c", "nodes": [
  {"device": "A100", "count": 4, "devices": 8, "ports": 4, "price_per_hour": 20, "hours_between_failures": 1000,
   "link": {"times": [{"bytes": 1024, "ns": 10}, {"bytes": 4096, "ns": 20, "exchange_ns": 30}]}}],
  "between_nodes": {"bytes_per_second": 25e9, "efficiency": 0.8, "latency_ns": 5000},
  "between_racks": {"nodes": 2, "bytes_per_second": 1e10}})";
constexpr const char* kLanguageModel = "gpt:layers=2,hidden=64,heads=8,kv_heads=2,sequence=16,vocabulary=99,gated=true";
constexpr const char* kKineto = R"({"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 8, "ts": 10.125, "dur": 3.5,
   "args": {"External id": 1}},
  {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 13, "ts": 12, "dur": 1, "args": {"correlation": 4}},
  {"ph": "B", "name": "x", "pid": "p", "tid": "t", "ts": 1}, {"ph": "E", "pid": "p", "tid": "t", "ts": 2},
  {"ph": "C", "name": "bytes", "pid": 7, "ts": 11, "args": {"allocated": 5}},
  {"ph": "b", "cat": "async", "id": "0x1", "name": "y", "pid": 7, "tid": 8, "ts": 1},
  {"ph": "s", "id": 1, "pid": 7, "tid": 8, "ts": 10, "cat": "ac2g", "name": "ac2g"}]})";

// What readers of Chrome JSON once took for something else: an exponent next to the limit, numbers beyond a double, a
// list for a number, white space after a comma, ranges that only launch work, and what the profiler shows beside a
// stream's.
constexpr const char* kOddChrome = R"([{"ph": "X", "ts": 1.5e-2147483648, "dur": [1], "pid": {}, "tid": 1.5},
  {"ph": "X", "name": "PP:0F0", "pid": 18446744073709551615, "tid": 2, "ts": 1, "dur": 2, "args": {"n": 1e309, "m": -1E999}},
  {"ph": "X", "name": "PP:0B0", "pid": 7, "tid": 8, "ts": 4, "dur": 2},
  {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 7, "tid": 8, "ts": 5, "dur": 1, "args": {"correlation": 4}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 13, "ts": 12, "dur": 9, "args": {"correlation": 4}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "PP:0B0", "pid": 0, "tid": 13, "ts": 12, "dur": 9},
  {"ph": "X", "cat": "cuda_sync", "name": "wait", "pid": 0, "tid": 13, "ts": 30, "dur": 9, "args": {"correlation": 4}},


  ])";

constexpr const char* kSafetensors = R"({"__metadata__": {"format": "pt", "0.tied": "0.weight"},
  "0.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
  "0.weight.step": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
  "1.mask": {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [32, 32]}}  )";
constexpr const char* kTensorIndex = R"({"metadata": {"total_size": 24},
  "weight_map": {"0.weight": "model-00001-of-00002.safetensors", "1.weight": "model-00002-of-00002.safetensors"}})";

class Corpus {
public:
    explicit Corpus(std::filesystem::path folder) : folder_(std::move(folder)) {}

    void add(const std::string& target, const std::string& name, const std::string& bytes) const {
        std::filesystem::create_directories(folder_ / target);
        write_text(folder_ / target / name, bytes);
    }

private:
    std::filesystem::path folder_;
};

std::string packed(const TemporaryFolder& folder, const std::string& text) {
    const auto path = folder / "packed";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return read_text(path);
}

void write_corpus(const Corpus& corpus) {
    const TemporaryFolder folder;
    corpus.add("profile", "small", kProfile);
    corpus.add("profile", "all_fields", to_json(parse_profile(kProfile)));
    corpus.add("device_catalogue", "small", kDevices);
    corpus.add("cluster", "small", kCluster);
    corpus.add("cluster", "model", kLanguageModel);
    corpus.add("cluster", "experts",
               std::string(kLanguageModel) + ",head_width=16,experts=4,top_k=2,shared_experts=1,dense_layers=1");
    corpus.add(
        "cluster", "parts",
        "gpt:layers=4,hidden=64,heads=8,sequence=16,vocabulary=99,norm=layer,qkv_bias=true,window=4,full_every=2,"
        "kv_rank=8,head_width=12,rope_width=4,value_width=8,mtp=1");
    corpus.add("cluster", "hugging_face",
               R"({"model_type": "gemma3_text", "hidden_size": 64, "sliding_window": 8, "sliding_window_pattern": 2})");
    corpus.add(
        "task_rules", "small",
        R"json({"format": "pipescope.task-rules", "version": 1, "rules": [{"name": "a", "kinds": {"F": "forward"},
                       "pattern": "PP:(?<partition>\\d+)(?<kind>[FB])(?<micro_batch>\\d+)"}]})json");
    corpus.add("schedule_csv", "gpipe", "0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1,\r\n");
    corpus.add("schedule_csv", "split", "0F0,0R0,0I0,0W0\n,1F0,1L0,(1B0;)OVERLAP_F_B\n");
    corpus.add("schedule_csv", "v", "0F0,1F0,1I0,0I0,1W0,0W0,0REDUCE_GRAD\r\n");
    corpus.add(
        "schedule_csv", "communication",
        "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0RESHARD\r\n1UNSHARD,1RECV_F0,1F0,(1SEND_B0;1RECV_F1)BATCH_P2P,1B0\r\n");
    int k = 0;
    for (const char* text : {"1.5ms", "2 us", "1000", "16GiB", "12.5GB/s", "0", "1e3 MB", "5s", "3TiB/s"}) {
        corpus.add("quantities", std::to_string(k), static_cast<char>(k % 3) + std::string(text));
        ++k;
    }
    const std::string ours = sample_trace_bytes();
    write_text(folder / "t.sqlite", ours);
    std::ostringstream json;
    export_chrome(open_trace(folder / "t.sqlite"), json);
    corpus.add("trace_file", "ours", ours);
    corpus.add("trace_file", "nsys", sample_nsys_bytes());
    SQLite::Database(folder / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec(
            "ALTER TABLE PIPESCOPE_STEP RENAME TO kept; CREATE VIEW PIPESCOPE_STEP AS SELECT * FROM kept;"
            "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN computed AS (lane + 1);"
            "CREATE TRIGGER emptied AFTER INSERT ON PIPESCOPE_RUN BEGIN DELETE FROM PIPESCOPE_TASK; END");
    corpus.add("trace_file", "foreign_sql", read_text(folder / "t.sqlite"));
    corpus.add("chrome", "ours", json.str());
    for (const char* target : {"chrome", "json_scanner"}) {
        corpus.add(target, "kineto", kKineto);
        corpus.add(target, "odd", kOddChrome);
    }
    corpus.add("chrome", "packed", packed(folder, kKineto));
    corpus.add("safetensors", "small", std::string("\x20\0\0\0\0\0\0\0", 8) + kSafetensors);
    TrainingRecord record{{10, "mlp:layers=4", "adam", 0.001, 7}, std::nullopt};
    corpus.add("saved_step", "without checksums", std::string(1, '\0') + to_json(record));
    record.checksums = {{"model-00001-of-00001.safetensors", {1, {{"0.weight", 2}, {"0.bias", 3}}}}};
    corpus.add("saved_step", "training", std::string(1, '\0') + to_json(record));
    corpus.add("saved_step", "index", std::string(1, '\1') + kTensorIndex);
    for (const char* target : {"trace_values", "nsys_values", "balance", "clock"}) {
        corpus.add(target, "values", std::string(64, '\x01') + std::string(64, '\xf0'));
    }
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: fuzz_corpus FOLDER\n";
        return 2;
    }
    pipescope::write_corpus(pipescope::Corpus(argv[1]));
    return 0;
}

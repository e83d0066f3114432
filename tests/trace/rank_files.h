#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pipescope {
/// Writes a file in the form of torch.profiler (torch 2.11, `export_chrome_trace`, record_shapes=True, gloo): metadata,
/// then events in us since baseTimeNanoseconds, all of one rank on one thread. Its ranges have the names, categories
/// and arguments that torch.distributed.pipelining gives them.
class RankFile {
public:
    RankFile(int rank, int size, const std::string& group = "default_pg", const std::string& ranks = "")
        : process_(4000 + rank),
          head_(fmt::format(R"json({{"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1,
"distributedInfo": {{"backend": "gloo", "rank": {}, "world_size": {}, "pg_count": 1, "pg_config": [{{"pg_name": "0",
"pg_desc": "{}", "backend_config": "cpu:gloo,cuda:gloo", "pg_size": {}, "ranks": [{}]}}]}},
"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE, "traceEvents": [
{{"ph": "M", "name": "process_name", "ts": 0, "pid": {}, "tid": 0, "args": {{"name": "python3"}}}},
{{"ph": "M", "name": "thread_name", "ts": 0, "pid": {}, "tid": {}, "args": {{"name": "thread {} (python3)"}}}})json",
                            rank, size, group, size, ranks, process_, process_, process_, process_)) {}

    /// Times in us.
    RankFile& range(const std::string& name, double start, double end, const std::string& more = "") {
        events_ += fmt::format(
            ",\n{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": "
            "{:.3f}, "
            "\"dur\": {:.3f}, \"args\": {{\"Record function id\": 0{}}}}}",
            name, process_, process_, start, end - start, more);
        return *this;
    }
    /// A message of floats, 256 for each sample, from posting to arrival.
    RankFile& message(const std::string& name, double start, double end, int samples = 32) {
        return range(
            name, start, end,
            fmt::format(
                R"(, "Concrete Inputs": [""], "Input type": ["float"], "Input Strides": [[256, 1]], "Input Dims": [[{}, 256]])",
                samples));
    }
    /// A range on a GPU's stream, as the profiler shows annotations there.
    RankFile& on_device(const std::string& name, double start, double end, int stream = 7) {
        events_ += fmt::format(
            ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"ts\": 0, \"pid\": 0, \"tid\": {}, \"args\": {{\"name\": "
            "\"stream {}\"}}}},\n{{\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"{}\", \"pid\": 0, "
            "\"tid\": "
            "{}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{}}}}",
            stream, stream, name, stream, start, end - start);
        return *this;
    }

    /// Work on a stream of GPU 0, and the call of the rank's thread that launched it.
    RankFile& launched(double start_of_call, double start, double end, const std::string& kernel = "gemm",
                       int stream = 7) {
        work_without_call(start, end, kernel, stream);
        return call(start_of_call, correlation_);
    }
    /// A call that launches work, which the profiler lost unless its correlation is given.
    RankFile& call(double start, int correlation = 9'999, const std::string& name = "cudaLaunchKernel") {
        events_ += fmt::format(
            ",\n{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, "
            "\"ts\": {:.3f}, \"dur\": 0.5, \"args\": {{\"correlation\": {}}}}}",
            name, process_, process_, start, correlation);
        return *this;
    }
    /// Work whose call the profiler did not record.
    RankFile& work_without_call(double start, double end, const std::string& kernel = "gemm", int stream = 7) {
        events_ += fmt::format(
            ",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": "
            "{:.3f}, \"args\": {{\"correlation\": {}}}}}",
            kernel.starts_with("Memcpy") ? "gpu_memcpy" : "kernel", kernel, stream, start, end - start, ++correlation_);
        return *this;
    }

    /// Work on a stream with further arguments, as the profiler writes them, without a call.
    RankFile& work(const std::string& category, const std::string& name, double start, double end,
                   const std::string& arguments, int stream = 7) {
        events_ += fmt::format(
            ",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": "
            "{:.3f}, \"args\": {{{}}}}}",
            category, name, stream, start, end - start, arguments);
        return *this;
    }

    std::string text(std::int64_t base = 1'790'857'026'000'000'000) const {
        return std::string(head_).replace(head_.find("BASE"), 4, std::to_string(base)) + events_ +
               "\n], \"traceName\": \"rank.json\"}";
    }
    std::filesystem::path write(const std::filesystem::path& path,
                                std::int64_t base = 1'790'857'026'000'000'000) const {
        std::ofstream(path, std::ios::binary) << text(base);
        return path;
    }

private:
    int process_;
    int correlation_ = 0;
    std::string head_;
    std::string events_;
};
}  // namespace pipescope

// The main() of each program that is made of torch_benchmarks.

int BENCHMARK_MAIN_FUNCTION(int argc, char** argv);

int main(int argc, char** argv) {
    return BENCHMARK_MAIN_FUNCTION(argc, argv);
}

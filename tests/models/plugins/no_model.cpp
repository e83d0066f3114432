// A shared library without a model.

extern "C" int answer() {
    return 42;
}

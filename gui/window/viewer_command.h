#pragma once

namespace pipescope {
/// The program `pipescope-gui`: parses the arguments, then shows windows or draws one into a file. Returns the exit
/// code: 0 success, 1 failure, 2 wrong usage. Errors go to stderr.
int runViewer(int argc, char** argv);
}  // namespace pipescope

#pragma once

namespace pipescope {
class Program;
class PythonModels;

/// Call it first in a program that measures models. Loads CUDA before any other part of torch, if there is a device.
/// Installs the tracking allocator before any tensor exists. Gives the calling thread one intra-op thread, as lanes
/// have.
void prepare_torch();

/// The commands that build or run models; `pipescope` becomes this program for them.
int run_pipescope_torch(int argc, const char* const* argv);
/// Runs these commands in a process that runs Python and has called prepare_torch(). `python` must outlive the call.
int run_pipescope_torch(int argc, const char* const* argv, PythonModels* python);

// Each in <name>_command.cpp. `python`: null in a process without Python.
void add_devices_command(Program& program);
void add_models_command(Program& program, PythonModels* python);
void add_profile_command(Program& program, PythonModels* python);
void add_run_command(Program& program, PythonModels* python);
void add_demo_command(Program& program);
}  // namespace pipescope

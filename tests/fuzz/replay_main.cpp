// NAME_fuzz [--mutations N] [--seed S] FILE|FOLDER...: gives every file to the target, then N mutations of them. The
// input that is being worked on lies in NAME_fuzz-crash.bin in the current folder when a promise is broken or a signal
// ends the process.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutation.h"

namespace {

namespace fs = std::filesystem;

const std::string* running = nullptr;
std::string crash_file;

void keep_input(int signal) {
  if (running != nullptr) {
    if (std::FILE* file = std::fopen(crash_file.c_str(), "wb"); file != nullptr) {
      std::fwrite(running->data(), 1, running->size(), file);
      std::fclose(file);
      std::fprintf(stderr, "the input is in %s\n", crash_file.c_str());
    }
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  running = &input;
  stitch::fuzz::fuzz_one(input);
  running = nullptr;
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// In the order of their names, so that a seed means the same everywhere.
std::vector<std::string> inputs_at(const std::vector<fs::path>& places) {
  std::vector<fs::path> files;
  for (const fs::path& place : places) {
    if (fs::is_directory(place)) {
      for (const fs::directory_entry& entry : fs::directory_iterator(place)) files.push_back(entry.path());
    } else {
      files.push_back(place);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  inputs.reserve(files.size());
  for (const fs::path& file : files) inputs.push_back(contents_of(file));
  return inputs;
}

}  // namespace

int main(int count, char** arguments) {
  long mutations = 0;
  unsigned long seed = 1;
  std::vector<fs::path> places;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--mutations" && i + 1 < count) {
      mutations = std::atol(arguments[++i]);
    } else if (word == "--seed" && i + 1 < count) {
      seed = std::strtoul(arguments[++i], nullptr, 10);
    } else {
      places.emplace_back(word);
    }
  }
  const std::vector<std::string> inputs = inputs_at(places);
  if (inputs.empty()) {
    std::fprintf(stderr, "no inputs: name files or folders\n");
    return 2;
  }
  crash_file = fs::path(arguments[0]).filename().string() + "-crash.bin";
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) std::signal(signal, keep_input);
  for (const std::string& input : inputs) run(input);
  stitch::Random random(seed);
  for (long i = 0; i < mutations; ++i) {
    run(stitch::fuzz::mutated(inputs[random.below(inputs.size())], inputs, random));
  }
  std::printf("%zu inputs and %ld mutations of them (seed %lu)\n", inputs.size(), mutations, seed);
  return 0;
}

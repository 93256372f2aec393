#pragma once
// The `cera` program: parses the command line, runs one command, turns errors into messages and
// exit codes.
//
//   0 done    1 runtime error    2 usage error    130 interrupted

namespace cera::cli {

int run(int argc, char** argv);

}  // namespace cera::cli

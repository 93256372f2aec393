#include "cli/app.h"

int main(int argc, char** argv) {
  return cera::cli::run(argc, argv);
}

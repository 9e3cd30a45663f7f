#include <cstdio>

#include "tests/api/settings_page.h"

int main() { return std::fputs(callboard::SettingsPage().c_str(), stdout) < 0; }

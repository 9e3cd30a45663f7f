#ifndef CALLBOARD_TESTS_API_SETTINGS_PAGE_H_
#define CALLBOARD_TESTS_API_SETTINGS_PAGE_H_

#include <string>

namespace callboard {

// Returns the content of docs/SETTINGS.md: every setting of every binary.
std::string SettingsPage();

}  // namespace callboard

#endif  // CALLBOARD_TESTS_API_SETTINGS_PAGE_H_

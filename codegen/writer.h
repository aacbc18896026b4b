#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace stitch::codegen {

/// Indented source text.
class Writer {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(2 * depth_, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  void blank() { text_ += '\n'; }

  /// A line that ends in '{', and its matching close().
  template <class... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line("{} {{", fmt::format(format, std::forward<Args>(args)...));
    ++depth_;
  }
  void open() {
    line("{{");
    ++depth_;
  }
  void close(int count = 1) {
    for (int i = 0; i < count; ++i) {
      --depth_;
      line("}}");
    }
  }

  /// A brace with something behind it.
  void close_with(std::string_view behind) {
    --depth_;
    line("}}{}", behind);
  }

  [[nodiscard]] int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }
  [[nodiscard]] const std::string& text() const { return text_; }
  void append(const std::string& text) { text_ += text; }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace stitch::codegen

#include "import/donations.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace stitch::import {
namespace {

const graph::TensorType& parameter_type(const Imported& model, std::int64_t parameter) {
  return model.graph.node(model.graph.parameters()[parameter]).type();
}

const graph::TensorType& result_type(const Imported& model, std::int64_t result) {
  return model.graph.type(model.graph.results()[result]);
}

/// The position of a name, or a position as text.
Result<std::int64_t> position_of(std::string_view text, const std::vector<std::string>& names, std::string_view what) {
  if (const auto found = std::ranges::find(names, text); found != names.end()) return found - names.begin();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!is_number) return make_error(ErrorKind::invalid_argument, "the model has no {} '{}'", what, text);
  if (number < 0 || number >= std::ssize(names))
    return make_error(ErrorKind::invalid_argument, "the model has no {} {}: there are {}", what, number, names.size());
  return number;
}

/// What stands for the * of a pattern; nothing where the name does not match.
std::optional<std::string_view> middle_of(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (name.size() < before.size() + behind.size() || !name.starts_with(before) || !name.ends_with(behind))
    return std::nullopt;
  return name.substr(before.size(), name.size() - before.size() - behind.size());
}

Result<std::int64_t> only_result_like(const Imported& model, std::int64_t parameter) {
  std::vector<std::int64_t> alike;
  for (std::int64_t r = 0; r < std::ssize(model.graph.results()); ++r) {
    if (result_type(model, r) == parameter_type(model, parameter)) alike.push_back(r);
  }
  if (alike.size() == 1) return alike.front();
  return make_error(ErrorKind::invalid_argument, "{} results are {}, as the parameter is: name one, PARAMETER:RESULT",
                    alike.size(), graph::to_string(parameter_type(model, parameter)));
}

Status donate_matching(Imported& model, std::string_view from, std::string_view to) {
  if (std::ranges::count(from, '*') != 1 || std::ranges::count(to, '*') != 1)
    return make_error(ErrorKind::invalid_argument, "one * on either side of the colon, for the same text");
  bool any = false;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const auto middle = middle_of(model.parameters[p], from);
    if (!middle) continue;
    any = true;
    std::string name(to);
    name.replace(name.find('*'), 1, *middle);
    STITCH_ASSIGN(const std::int64_t result, position_of(name, model.results, "result"));
    STITCH_TRY(donate(model, graph::Donation{static_cast<std::int64_t>(p), result}));
  }
  return any ? Status() : make_error(ErrorKind::invalid_argument, "the model has no parameter '{}'", from);
}

Status donate_named(Imported& model, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view from = text.substr(0, colon);
  const std::string_view to = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (from.find('*') != std::string_view::npos) return donate_matching(model, from, to);
  STITCH_ASSIGN(const std::int64_t parameter, position_of(from, model.parameters, "parameter"));
  STITCH_ASSIGN(const std::int64_t result, colon == std::string_view::npos ? only_result_like(model, parameter)
                                                                           : position_of(to, model.results, "result"));
  return donate(model, graph::Donation{parameter, result});
}

}  // namespace

Status donate(Imported& model, graph::Donation donation) {
  const graph::TensorType &from = parameter_type(model, donation.parameter), &to = result_type(model, donation.result);
  if (from != to) {
    return make_error(ErrorKind::invalid_argument, "result {} is {} and cannot take the memory of parameter {}, {}",
                      donation.result, graph::to_string(to), donation.parameter, graph::to_string(from));
  }
  for (const graph::Donation& other : model.donations) {
    if (other == donation) return {};
    if (other.parameter == donation.parameter)
      return make_error(ErrorKind::invalid_argument, "parameter {} is given to result {} already", other.parameter,
                        other.result);
    if (other.result == donation.result)
      return make_error(ErrorKind::invalid_argument, "result {} takes the memory of parameter {} already", other.result,
                        other.parameter);
  }
  model.donations.push_back(donation);
  return {};
}

Status donate(Imported& model, std::string_view text) {
  const Status status = donate_named(model, text);
  return status ? status : status.error().within(fmt::format("donation '{}'", text));
}

}  // namespace stitch::import

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stitch::cli {

/// Rows of how well cost models order candidates, for people: device, who predicts, family, and the figures of
/// costmodel::RankingQuality.
class CostModelTable {
 public:
  /// `quality`: as costmodel::to_document gives it.
  void add(std::string_view device, std::string_view scorer, std::string_view family, const nlohmann::json& quality);
  /// An accuracy document (daemon::accuracy_document): the model's rows and those of the analytical model beside it, on
  /// the same candidates, over all and by family.
  void add_accuracy(std::string_view device, std::string_view scorer, const nlohmann::json& accuracy);
  [[nodiscard]] std::string text() const;

 private:
  std::string rows_;
};

}  // namespace stitch::cli

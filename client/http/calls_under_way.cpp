#include "client/http/calls_under_way.h"

namespace stitch::client {

void CallsUnderWay::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Connection* const via : under_way_) via->interrupt();
}

bool CallsUnderWay::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

CallsUnderWay::Call::Call(CallsUnderWay* calls, Connection& via) : calls_(calls), via_(via) {
  if (calls_ == nullptr) return;
  const std::lock_guard lock(calls_->mutex_);
  calls_->under_way_.insert(&via_);
  if (calls_->ended_) via_.interrupt();
}

CallsUnderWay::Call::~Call() {
  if (calls_ == nullptr) return;
  const std::lock_guard lock(calls_->mutex_);
  calls_->under_way_.erase(&via_);
}

}  // namespace stitch::client

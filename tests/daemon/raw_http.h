#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

// HTTP by hand over a Unix socket: what a well-behaved client would never send, and answers as they are on the wire.
namespace stitch::daemon::raw {

class Socket {
 public:
  explicit Socket(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() { close(); }

  [[nodiscard]] bool connected() const { return descriptor_ >= 0; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  void end_sending() const { ::shutdown(descriptor_, SHUT_WR); }

  /// False when the peer takes no more.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// What arrives next; empty at the end, or when nothing came for `patience_ms`.
  [[nodiscard]] std::string receive(int patience_ms = 20'000) const {
    pollfd wanted{descriptor_, POLLIN, 0};
    if (::poll(&wanted, 1, patience_ms) <= 0) return {};
    std::string bytes(65536, '\0');
    const ssize_t size = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }
  [[nodiscard]] std::string receive_all() const {
    std::string all;
    for (std::string piece = receive(); !piece.empty(); piece = receive()) all += piece;
    return all;
  }

 private:
  int descriptor_ = -1;
};

struct Answer {
  int status = 0;  ///< 0: none
  std::string head, body;
};

inline Answer parse_answer(const std::string& text) {
  Answer answer;
  if (text.rfind("HTTP/1.1 ", 0) == 0) answer.status = std::atoi(text.c_str() + 9);
  const std::size_t end = text.find("\r\n\r\n");
  answer.head = text.substr(0, end);
  if (end != std::string::npos) answer.body = text.substr(end + 4);
  return answer;
}

/// Sends bytes as they are and reads until the server closes the connection.
inline Answer talk(const std::filesystem::path& path, const std::string& bytes) {
  const Socket socket(path);
  if (!socket.connected()) return {};
  socket.send(bytes);
  return parse_answer(socket.receive_all());
}

inline std::string request_text(const std::string& method, const std::string& target, const std::string& body = {},
                                const std::string& headers = {}) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers;
  if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

/// One proper request on a connection of its own.
inline Answer request(const std::filesystem::path& path, const std::string& method, const std::string& target,
                      const std::string& body = {}, const std::string& headers = {}) {
  return talk(path, request_text(method, target, body, headers));
}

/// Waits until somebody serves on the socket.
inline bool wait_for_server(const std::filesystem::path& path) {
  for (int i = 0; i < 3000; ++i) {
    if (request(path, "GET", "/v1/health").status == 200) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace stitch::daemon::raw

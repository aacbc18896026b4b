#include "emulator/ptx/ptx_parser.h"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "emulator/ptx/ptx_lexer.h"

namespace stitch::emulator::ptx {

std::string_view line_text(std::string_view source, std::uint32_t line) {
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < line; ++i) {
    const std::size_t end = source.find('\n', begin);
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
  std::string_view text = source.substr(begin, source.find('\n', begin) - begin);
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Error error_at(ErrorKind kind, std::string_view source, std::uint32_t line, std::string_view message) {
  constexpr std::size_t longest = 160;
  std::string_view text = line_text(source, line);
  const bool cut = text.size() > longest;
  return make_error(kind, "PTX line {}: {}: `{}{}`", line, message, text.substr(0, longest), cut ? "…" : "");
}

namespace {

struct Number {
  enum class Kind : std::uint8_t { integer, real32, real64 } kind = Kind::integer;
  std::uint64_t bits = 0;
};

bool parse_digits(std::string_view text, int base, std::uint64_t& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end;
}

bool parse_number(std::string_view text, Number& number) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
    number.kind = Number::Kind::real32;
    return text.size() == 10 && parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
    number.kind = Number::Kind::real64;
    return text.size() == 18 && parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.find('.') != std::string_view::npos) {
    number.kind = Number::Kind::real64;
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    number.bits = std::bit_cast<std::uint64_t>(value);
    return error == std::errc() && stop == text.data() + text.size();
  }
  if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    return parse_digits(text.substr(2), 16, number.bits);
  }
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
    return parse_digits(text.substr(2), 2, number.bits);
  }
  return parse_digits(text, text.size() > 1 && text[0] == '0' ? 8 : 10, number.bits);
}

/// A type in a declaration: ".b32", ".align 16", ".v4" collected in front of a name.
struct DeclaredType {
  Type type = Type::b8;
  std::uint32_t vector = 1;
  std::uint32_t alignment = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source), lexer_(source) {}

  Result<Module> module() {
    while (lexer_.peek().kind != TokenKind::end) STITCH_TRY(top_level());
    return std::move(module_);
  }

 private:
  Error fail(std::string_view message) const { return fail(lexer_.peek().line, message); }
  Error fail(std::uint32_t line, std::string_view message) const {
    return error_at(ErrorKind::parse, source_, line, message);
  }

  bool accept(char punctuation) {
    if (!lexer_.peek().is(punctuation)) return false;
    lexer_.take();
    return true;
  }
  bool accept(std::string_view word) {
    if (!lexer_.peek().is(word)) return false;
    lexer_.take();
    return true;
  }
  Status expect(char punctuation) {
    if (accept(punctuation)) return {};
    return fail(fmt::format("expected '{}' before '{}'", punctuation, lexer_.peek().text));
  }
  Result<std::string_view> word(std::string_view what) {
    if (lexer_.peek().kind != TokenKind::word) {
      return fail(fmt::format("expected {} before '{}'", what, lexer_.peek().text));
    }
    return lexer_.take().text;
  }

  Result<std::uint64_t> integer() {
    const bool negative = accept('-');
    const Token token = lexer_.peek();
    Number number;
    if (token.kind != TokenKind::number || !parse_number(token.text, number) || number.kind != Number::Kind::integer) {
      return fail(fmt::format("expected an integer before '{}'", token.text));
    }
    lexer_.take();
    return negative ? 0 - number.bits : number.bits;
  }
  Result<std::uint32_t> small_integer() {
    STITCH_ASSIGN(const std::uint64_t value, integer());
    if (value > std::numeric_limits<std::uint32_t>::max()) return fail("integer out of range");
    return static_cast<std::uint32_t>(value);
  }

  Status skip_to_semicolon() {
    while (!lexer_.peek().is(';')) {
      if (lexer_.peek().kind == TokenKind::end) return fail("text ends inside a statement");
      lexer_.take();
    }
    lexer_.take();
    return {};
  }

  Status top_level();
  Status file_directive();
  Status skip_section();
  Status function(bool is_entry, bool is_extern);
  Result<std::vector<Variable>> parameter_list();
  Status function_directives(Function& function);
  Result<Dim3> dimensions();

  Result<DeclaredType> declared_type();
  Result<Variable> variable(StateSpace space, bool is_extern, std::uint32_t scope);
  Status initialiser(Variable& variable);
  Status initial_element(Variable& variable, std::uint64_t& at);

  Status body(Function& function);
  Status body_directive(Function& function, std::uint32_t scope);
  Status location();
  Status registers(Function& function, std::uint32_t scope);
  Status label(Function& function, std::uint32_t scope);
  Status instruction(Function& function, std::uint32_t scope);
  Result<Operand> operand();
  Result<Operand> address();
  Status elements(Operand& operand, char close);

  std::string_view source_;
  Lexer lexer_;
  Module module_;
  std::uint32_t source_file_ = 0;
  std::uint32_t source_line_ = 0;
  int nesting_ = 0;  ///< of operands
};

Status Parser::file_directive() {
  constexpr std::uint32_t most_files = 1U << 16;  // they are kept in an array
  STITCH_ASSIGN(const std::uint32_t index, small_integer());
  if (index >= most_files) return fail(fmt::format("file number {}, at most {} are possible", index, most_files));
  if (lexer_.peek().kind != TokenKind::text) return fail("expected a file name");
  module_.files[index] = std::string(lexer_.take().text);
  while (accept(',')) {
    STITCH_TRY(integer());
  }
  return {};
}

Status Parser::skip_section() {
  STITCH_TRY(word("section name"));
  STITCH_TRY(expect('{'));
  for (int depth = 1; depth > 0;) {
    const Token token = lexer_.take();
    if (token.kind == TokenKind::end) return fail("text ends inside a section");
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
  return {};
}

Status Parser::top_level() {
  if (accept(';')) return {};
  bool is_extern = false;
  for (;;) {
    if (accept(".extern")) {
      is_extern = true;
    } else if (!accept(".visible") && !accept(".weak") && !accept(".common")) {
      break;
    }
  }
  const Token directive = lexer_.peek();
  if (directive.kind != TokenKind::word) {
    return fail(fmt::format("expected a directive before '{}'", directive.text));
  }
  lexer_.take();
  if (directive.is(".version")) {
    if (lexer_.peek().kind != TokenKind::number) return fail("expected a version number");
    module_.version = lexer_.take().text;
    return {};
  }
  if (directive.is(".target")) {
    STITCH_ASSIGN(module_.target, word("target"));
    while (accept(',')) STITCH_TRY(word("target option"));
    return {};
  }
  if (directive.is(".address_size")) {
    STITCH_ASSIGN(module_.address_bits, small_integer());
    if (module_.address_bits != 64) return fail(directive.line, "only 64-bit addresses are supported");
    return {};
  }
  if (directive.is(".file")) return file_directive();
  if (directive.is(".section")) return skip_section();
  if (directive.is(".pragma") || directive.is(".alias")) return skip_to_semicolon();
  if (directive.is(".entry")) return function(true, is_extern);
  if (directive.is(".func")) return function(false, is_extern);
  const std::pair<std::string_view, StateSpace> spaces[] = {
      {".global", StateSpace::global}, {".const", StateSpace::constant}, {".shared", StateSpace::shared}};
  for (const auto& [name, space] : spaces) {
    if (!directive.is(name)) continue;
    STITCH_ASSIGN(Variable declared, variable(space, is_extern, 0));
    module_.variables.push_back(std::move(declared));
    return expect(';');
  }
  return fail(directive.line, fmt::format("unknown directive '{}'", directive.text));
}

Result<DeclaredType> Parser::declared_type() {
  DeclaredType declared;
  for (;;) {
    STITCH_ASSIGN(const std::string_view text, word("type"));
    if (text == ".align") {
      STITCH_ASSIGN(declared.alignment, small_integer());
      if (!std::has_single_bit(declared.alignment)) return fail("alignment is not a power of two");
    } else if (text == ".v2" || text == ".v4") {
      declared.vector = text == ".v2" ? 2 : 4;
    } else if (text == ".ptr" || text == ".global" || text == ".const" || text == ".shared" || text == ".local" ||
               text.starts_with(".attribute")) {
      continue;
    } else if (const auto type = type_from_name(text.substr(text.starts_with('.') ? 1 : 0))) {
      declared.type = *type;
      break;
    } else {
      return fail(fmt::format("unknown type '{}'", text));
    }
  }
  // `.param .u64 .ptr .global .align 16 name`: what follows the type says where the pointer points.
  while (lexer_.peek().kind == TokenKind::word && lexer_.peek().text.starts_with('.')) {
    if (accept(".align")) {
      STITCH_TRY(integer());
    } else {
      lexer_.take();
    }
  }
  const std::uint32_t natural = bytes(declared.type) * declared.vector;
  if (declared.alignment == 0) declared.alignment = std::max(natural, 1U);
  return declared;
}

Result<Variable> Parser::variable(StateSpace space, bool is_extern, std::uint32_t scope) {
  STITCH_ASSIGN(const DeclaredType declared, declared_type());
  Variable result;
  result.space = space;
  result.type = declared.type;
  result.vector = declared.vector;
  result.alignment = declared.alignment;
  result.is_extern = is_extern;
  result.scope = scope;
  result.line = lexer_.peek().line;
  STITCH_ASSIGN(result.name, word("variable name"));
  result.bytes = std::uint64_t{declared.vector} * bytes(declared.type);
  bool open_ended = false;
  while (accept('[')) {
    result.is_array = true;
    if (accept(']')) {
      open_ended = true;
      continue;
    }
    STITCH_ASSIGN(const std::uint64_t count, integer());
    if (count != 0 && result.bytes > (std::uint64_t{1} << 40) / count) return fail("array too large");
    result.bytes *= count;
    STITCH_TRY(expect(']'));
  }
  // A thread's frame and a block's memory are far smaller on any GPU, and offsets into them have 32 bits.
  constexpr std::uint64_t most_local_bytes = std::uint64_t{1} << 20;
  const bool in_memory = space == StateSpace::global || space == StateSpace::constant;
  if (!in_memory && result.bytes > most_local_bytes) return fail("variable too large");
  if (accept('=')) STITCH_TRY(initialiser(result));
  if (open_ended) result.bytes = result.initial.size();
  return result;
}

Status Parser::initialiser(Variable& variable) {
  std::uint64_t at = 0;
  if (!accept('{')) return initial_element(variable, at);
  for (int depth = 1; depth > 0;) {
    if (accept('{')) {
      ++depth;
    } else if (accept('}')) {
      --depth;
      accept(',');
    } else {
      STITCH_TRY(initial_element(variable, at));
      if (!accept(',') && !lexer_.peek().is('}')) return fail("expected ',' or '}' in an initialiser");
    }
  }
  return {};
}

Status Parser::initial_element(Variable& variable, std::uint64_t& at) {
  const std::size_t width = bytes(variable.type);
  std::uint64_t value = 0;
  if (lexer_.peek().kind == TokenKind::word) {
    std::string_view symbol = lexer_.take().text;
    if (symbol == "generic") {
      STITCH_TRY(expect('('));
      STITCH_ASSIGN(symbol, word("symbol"));
      STITCH_TRY(expect(')'));
    }
    std::int64_t addend = 0;
    if (accept('+')) {
      STITCH_ASSIGN(const std::uint64_t amount, integer());
      addend = amount;
    }
    if (width != 8) return fail("an address needs a 64-bit element");
    variable.relocations.push_back({at, symbol, addend});
  } else {
    const bool negative = accept('-');
    Number number;
    if (lexer_.peek().kind != TokenKind::number || !parse_number(lexer_.peek().text, number)) {
      return fail(fmt::format("expected an initial value before '{}'", lexer_.peek().text));
    }
    lexer_.take();
    value = negative ? 0 - number.bits : number.bits;
    if (number.kind == Number::Kind::real64 && variable.type == Type::f32) {
      value = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(number.bits)));
    }
  }
  variable.initial.resize(at + width);
  for (std::size_t i = 0; i < width; ++i) variable.initial[at + i] = value >> (8 * i);
  at += width;
  return {};
}

Result<std::vector<Variable>> Parser::parameter_list() {
  std::vector<Variable> list;
  if (!accept('(')) return list;
  while (!accept(')')) {
    if (accept(".reg")) return fail("register parameters are not supported");
    if (!accept(".param")) return fail(fmt::format("expected '.param' before '{}'", lexer_.peek().text));
    STITCH_ASSIGN(Variable declared, variable(StateSpace::param, false, 0));
    list.push_back(std::move(declared));
    if (!accept(',') && !lexer_.peek().is(')')) return fail("expected ',' or ')' in a parameter list");
  }
  return list;
}

Result<Dim3> Parser::dimensions() {
  Dim3 result;
  STITCH_ASSIGN(result.x, small_integer());
  if (accept(',')) {
    STITCH_ASSIGN(result.y, small_integer());
  }
  if (accept(',')) {
    STITCH_ASSIGN(result.z, small_integer());
  }
  return result;
}

Status Parser::function_directives(Function& function) {
  while (lexer_.peek().kind == TokenKind::word) {
    const Token directive = lexer_.take();
    if (directive.is(".maxntid")) {
      STITCH_ASSIGN(function.maximum_block, dimensions());
    } else if (directive.is(".reqntid")) {
      STITCH_ASSIGN(function.required_block, dimensions());
    } else if (directive.is(".reqnctapercluster")) {
      STITCH_ASSIGN(function.required_cluster, dimensions());
    } else if (directive.is(".minnctapersm") || directive.is(".maxnreg") || directive.is(".maxclusterrank") ||
               directive.is(".maxnctapersm")) {
      STITCH_TRY(integer());
    } else if (directive.is(".pragma")) {
      STITCH_TRY(skip_to_semicolon());
    } else if (!directive.is(".noreturn") && !directive.is(".explicitcluster") && !directive.is(".blocksareclusters")) {
      return fail(directive.line, fmt::format("unknown function directive '{}'", directive.text));
    }
  }
  return {};
}

Status Parser::function(bool is_entry, bool is_extern) {
  Function result;
  result.is_entry = is_entry;
  result.line = lexer_.peek().line;
  if (!is_entry) {
    STITCH_ASSIGN(result.returns, parameter_list());
  }
  STITCH_ASSIGN(result.name, word("function name"));
  STITCH_ASSIGN(result.parameters, parameter_list());
  STITCH_TRY(function_directives(result));
  if (lexer_.peek().is('{')) {
    if (is_extern) return fail("an extern function has no body");
    STITCH_TRY(body(result));
  } else {
    STITCH_TRY(expect(';'));
  }
  module_.functions.push_back(std::move(result));
  return {};
}

Status Parser::body(Function& function) {
  function.has_body = true;
  source_file_ = 0;
  source_line_ = 0;
  STITCH_TRY(expect('{'));
  function.scope_parent.push_back(0);
  std::vector<std::uint32_t> open{0};
  while (!open.empty()) {
    const Token token = lexer_.peek();
    const std::uint32_t scope = open.back();
    if (token.kind == TokenKind::end) return fail(fmt::format("text ends inside function '{}'", function.name));
    if (accept('{')) {
      open.push_back(function.scope_parent.size());
      function.scope_parent.push_back(scope);
    } else if (accept('}')) {
      open.pop_back();
    } else if (accept(';')) {
      continue;
    } else if (token.kind == TokenKind::word && token.text.starts_with('.')) {
      STITCH_TRY(body_directive(function, scope));
    } else if (token.kind == TokenKind::word && lexer_.peek_second().is(':')) {
      STITCH_TRY(label(function, scope));
    } else {
      STITCH_TRY(instruction(function, scope));
    }
  }
  return {};
}

Status Parser::body_directive(Function& function, std::uint32_t scope) {
  const Token directive = lexer_.take();
  if (directive.is(".loc")) return location();
  if (directive.is(".pragma")) return skip_to_semicolon();
  if (directive.is(".reg")) return registers(function, scope);
  const bool is_extern = directive.is(".extern");
  const Token space_token = is_extern ? lexer_.take() : directive;
  const std::pair<std::string_view, StateSpace> spaces[] = {{".shared", StateSpace::shared},
                                                            {".local", StateSpace::local},
                                                            {".param", StateSpace::param},
                                                            {".global", StateSpace::global},
                                                            {".const", StateSpace::constant}};
  for (const auto& [name, space] : spaces) {
    if (!space_token.is(name)) continue;
    STITCH_ASSIGN(Variable declared, variable(space, is_extern, scope));
    function.variables.push_back(std::move(declared));
    return expect(';');
  }
  return fail(directive.line, fmt::format("unknown directive '{}'", directive.text));
}

Status Parser::location() {
  STITCH_ASSIGN(source_file_, small_integer());
  STITCH_ASSIGN(source_line_, small_integer());
  STITCH_TRY(integer());
  if (!accept(',')) return {};
  STITCH_TRY(word("function_name"));
  STITCH_TRY(word("label"));
  if (accept('+')) STITCH_TRY(integer());
  if (!accept(',')) return {};
  STITCH_TRY(word("inlined_at"));
  for (int i = 0; i < 3; ++i) STITCH_TRY(integer());
  return {};
}

Status Parser::registers(Function& function, std::uint32_t scope) {
  STITCH_ASSIGN(const DeclaredType declared, declared_type());
  if (declared.vector != 1) return fail("vector registers are not supported");
  do {
    RegisterDeclaration result;
    result.type = declared.type;
    result.scope = scope;
    STITCH_ASSIGN(result.name, word("register name"));
    if (accept('<')) {
      STITCH_ASSIGN(result.count, small_integer());
      if (result.count > (1U << 24)) return fail("too many registers");
      STITCH_TRY(expect('>'));
    }
    function.registers.push_back(result);
  } while (accept(','));
  return expect(';');
}

Status Parser::label(Function& function, std::uint32_t scope) {
  Label result;
  result.name = lexer_.take().text;
  result.scope = scope;
  result.statement = function.statements.size();
  lexer_.take();
  if (accept(".callprototype")) return skip_to_semicolon();
  if (accept(".branchtargets")) {
    do {
      STITCH_ASSIGN(const std::string_view target, word("label"));
      result.targets.push_back(target);
    } while (accept(','));
    STITCH_TRY(expect(';'));
  }
  function.labels.push_back(std::move(result));
  return {};
}

Status Parser::instruction(Function& function, std::uint32_t scope) {
  Statement statement;
  statement.line = lexer_.peek().line;
  statement.scope = scope;
  statement.source_file = source_file_;
  statement.source_line = source_line_;
  if (accept('@')) {
    statement.guard_inverted = accept('!');
    STITCH_ASSIGN(statement.guard, word("predicate register"));
  }
  STITCH_ASSIGN(statement.opcode, word("instruction"));
  while (!lexer_.peek().is(';')) {
    STITCH_ASSIGN(Operand next, operand());
    statement.operands.push_back(std::move(next));
    if (!accept(',') && !lexer_.peek().is(';')) {
      return fail(fmt::format("expected ',' or ';' before '{}'", lexer_.peek().text));
    }
  }
  lexer_.take();
  function.statements.push_back(std::move(statement));
  return {};
}

Status Parser::elements(Operand& operand, char close) {
  lexer_.take();
  while (!accept(close)) {
    STITCH_ASSIGN(Operand element, this->operand());
    operand.elements.push_back(std::move(element));
    if (!accept(',') && !lexer_.peek().is(close)) return fail(fmt::format("expected ',' or '{}'", close));
  }
  return {};
}

Result<Operand> Parser::address() {
  Operand result;
  result.kind = Operand::Kind::address;
  lexer_.take();
  if (lexer_.peek().kind == TokenKind::word) {
    result.name = lexer_.take().text;
  } else {
    STITCH_ASSIGN(const std::uint64_t base, integer());
    result.offset = base;
  }
  while (lexer_.peek().is('+') || lexer_.peek().is('-')) {
    const bool negative = lexer_.take().is('-');
    STITCH_ASSIGN(const std::uint64_t amount, integer());
    result.offset += negative ? 0 - amount : amount;
  }
  // Tensor coordinates: kept, so that the decoder can say what it does not support.
  while (accept(',')) {
    STITCH_ASSIGN(Operand element, operand());
    result.elements.push_back(std::move(element));
  }
  STITCH_TRY(expect(']'));
  return result;
}

Result<Operand> Parser::operand() {
  // PTX has vectors in lists at the deepest; text that only opens brackets must not use the stack up.
  constexpr int deepest = 8;
  struct Nesting {
    int& depth;
    explicit Nesting(int& counter) : depth(++counter) {}
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --depth; }
  } nesting(nesting_);
  if (nesting_ > deepest) return fail("operands are nested too deeply");
  Operand result;
  result.inverted = accept('!');
  const Token token = lexer_.peek();
  if (token.is('[')) return address();
  if (token.is('{') || token.is('(')) {
    result.kind = token.is('{') ? Operand::Kind::vector : Operand::Kind::list;
    STITCH_TRY(elements(result, token.is('{') ? '}' : ')'));
    return result;
  }
  if (token.kind == TokenKind::word) {
    result.name = lexer_.take().text;
    if (accept('|')) {
      STITCH_ASSIGN(result.second, word("second destination"));
    } else if (accept('+')) {
      STITCH_ASSIGN(const std::uint64_t amount, integer());
      result.offset = amount;
    }
    return result;
  }
  const bool negative = accept('-');
  Number number;
  if (lexer_.peek().kind != TokenKind::number || !parse_number(lexer_.peek().text, number)) {
    return fail(fmt::format("expected an operand before '{}'", lexer_.peek().text));
  }
  lexer_.take();
  switch (number.kind) {
    case Number::Kind::integer:
      result.kind = Operand::Kind::integer;
      result.bits = negative ? 0 - number.bits : number.bits;
      break;
    case Number::Kind::real32:
      result.kind = Operand::Kind::real32;
      result.bits = negative ? number.bits ^ 0x80000000U : number.bits;
      break;
    case Number::Kind::real64:
      result.kind = Operand::Kind::real64;
      result.bits = negative ? number.bits ^ (std::uint64_t{1} << 63) : number.bits;
      break;
  }
  return result;
}

}  // namespace

Result<Module> parse(std::string_view source) { return Parser(source).module(); }

}  // namespace stitch::emulator::ptx

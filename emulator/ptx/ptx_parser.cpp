#include "emulator/ptx/ptx_parser.h"

#include <string>
#include <utility>

#include "emulator/ptx/ptx_cursor.h"
#include "emulator/ptx/ptx_declarations.h"
#include "emulator/ptx/ptx_operand.h"

namespace stitch::emulator::ptx {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view source) : in_(source) {}

  Result<Module> module() {
    while (in_.peek().kind != TokenKind::end) STITCH_TRY(top_level());
    return std::move(module_);
  }

 private:
  Status top_level();
  Status file_directive();
  Status skip_section();
  Status function(bool is_entry, bool is_extern);
  Status function_directives(Function& function);

  Status body(Function& function);
  Status body_directive(Function& function, std::uint32_t scope);
  Status location();
  Status registers(Function& function, std::uint32_t scope);
  Status label(Function& function, std::uint32_t scope);
  Status instruction(Function& function, std::uint32_t scope);

  Cursor in_;
  Module module_;
  std::uint32_t source_file_ = 0;
  std::uint32_t source_line_ = 0;
};

Status Parser::file_directive() {
  constexpr std::uint32_t most_files = 1U << 16;  // they are kept in an array
  STITCH_ASSIGN(const std::uint32_t index, in_.small_integer());
  if (index >= most_files) return in_.fail(fmt::format("file number {}, at most {} are possible", index, most_files));
  if (in_.peek().kind != TokenKind::text) return in_.fail("expected a file name");
  module_.files[index] = std::string(in_.take().text);
  while (in_.accept(',')) {
    STITCH_TRY(in_.integer());
  }
  return {};
}

Status Parser::skip_section() {
  STITCH_TRY(in_.word("section name"));
  STITCH_TRY(in_.expect('{'));
  for (int depth = 1; depth > 0;) {
    const Token token = in_.take();
    if (token.kind == TokenKind::end) return in_.fail("text ends inside a section");
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
  return {};
}

Status Parser::top_level() {
  if (in_.accept(';')) return {};
  bool is_extern = false;
  for (;;) {
    if (in_.accept(".extern")) {
      is_extern = true;
    } else if (!in_.accept(".visible") && !in_.accept(".weak") && !in_.accept(".common")) {
      break;
    }
  }
  const Token directive = in_.peek();
  if (directive.kind != TokenKind::word) {
    return in_.fail(fmt::format("expected a directive before '{}'", directive.text));
  }
  in_.take();
  if (directive.is(".version")) {
    if (in_.peek().kind != TokenKind::number) return in_.fail("expected a version number");
    module_.version = in_.take().text;
    return {};
  }
  if (directive.is(".target")) {
    STITCH_ASSIGN(module_.target, in_.word("target"));
    while (in_.accept(',')) STITCH_TRY(in_.word("target option"));
    return {};
  }
  if (directive.is(".address_size")) {
    STITCH_ASSIGN(module_.address_bits, in_.small_integer());
    if (module_.address_bits != 64) return in_.fail(directive.line, "only 64-bit addresses are supported");
    return {};
  }
  if (directive.is(".file")) return file_directive();
  if (directive.is(".section")) return skip_section();
  if (directive.is(".pragma") || directive.is(".alias")) return in_.skip_to_semicolon();
  if (directive.is(".entry")) return function(true, is_extern);
  if (directive.is(".func")) return function(false, is_extern);
  const std::pair<std::string_view, StateSpace> spaces[] = {
      {".global", StateSpace::global}, {".const", StateSpace::constant}, {".shared", StateSpace::shared}};
  for (const auto& [name, space] : spaces) {
    if (!directive.is(name)) continue;
    STITCH_ASSIGN(Variable declared, declared_variable(in_, space, is_extern, 0));
    module_.variables.push_back(std::move(declared));
    return in_.expect(';');
  }
  return in_.fail(directive.line, fmt::format("unknown directive '{}'", directive.text));
}

Status Parser::function_directives(Function& function) {
  while (in_.peek().kind == TokenKind::word) {
    const Token directive = in_.take();
    if (directive.is(".maxntid")) {
      STITCH_ASSIGN(function.maximum_block, in_.dimensions());
    } else if (directive.is(".reqntid")) {
      STITCH_ASSIGN(function.required_block, in_.dimensions());
    } else if (directive.is(".reqnctapercluster")) {
      STITCH_ASSIGN(function.required_cluster, in_.dimensions());
    } else if (directive.is(".minnctapersm") || directive.is(".maxnreg") || directive.is(".maxclusterrank") ||
               directive.is(".maxnctapersm")) {
      STITCH_TRY(in_.integer());
    } else if (directive.is(".pragma")) {
      STITCH_TRY(in_.skip_to_semicolon());
    } else if (!directive.is(".noreturn") && !directive.is(".explicitcluster") && !directive.is(".blocksareclusters")) {
      return in_.fail(directive.line, fmt::format("unknown function directive '{}'", directive.text));
    }
  }
  return {};
}

Status Parser::function(bool is_entry, bool is_extern) {
  Function result;
  result.is_entry = is_entry;
  result.line = in_.peek().line;
  if (!is_entry) {
    STITCH_ASSIGN(result.returns, parameter_list(in_));
  }
  STITCH_ASSIGN(result.name, in_.word("function name"));
  STITCH_ASSIGN(result.parameters, parameter_list(in_));
  STITCH_TRY(function_directives(result));
  if (in_.peek().is('{')) {
    if (is_extern) return in_.fail("an extern function has no body");
    STITCH_TRY(body(result));
  } else {
    STITCH_TRY(in_.expect(';'));
  }
  module_.functions.push_back(std::move(result));
  return {};
}

Status Parser::body(Function& function) {
  function.has_body = true;
  source_file_ = 0;
  source_line_ = 0;
  STITCH_TRY(in_.expect('{'));
  function.scope_parent.push_back(0);
  std::vector<std::uint32_t> open{0};
  while (!open.empty()) {
    const Token token = in_.peek();
    const std::uint32_t scope = open.back();
    if (token.kind == TokenKind::end) return in_.fail(fmt::format("text ends inside function '{}'", function.name));
    if (in_.accept('{')) {
      open.push_back(function.scope_parent.size());
      function.scope_parent.push_back(scope);
    } else if (in_.accept('}')) {
      open.pop_back();
    } else if (in_.accept(';')) {
      continue;
    } else if (token.kind == TokenKind::word && token.text.starts_with('.')) {
      STITCH_TRY(body_directive(function, scope));
    } else if (token.kind == TokenKind::word && in_.peek_second().is(':')) {
      STITCH_TRY(label(function, scope));
    } else {
      STITCH_TRY(instruction(function, scope));
    }
  }
  return {};
}

Status Parser::body_directive(Function& function, std::uint32_t scope) {
  const Token directive = in_.take();
  if (directive.is(".loc")) return location();
  if (directive.is(".pragma")) return in_.skip_to_semicolon();
  if (directive.is(".reg")) return registers(function, scope);
  const bool is_extern = directive.is(".extern");
  const Token space_token = is_extern ? in_.take() : directive;
  const std::pair<std::string_view, StateSpace> spaces[] = {{".shared", StateSpace::shared},
                                                            {".local", StateSpace::local},
                                                            {".param", StateSpace::param},
                                                            {".global", StateSpace::global},
                                                            {".const", StateSpace::constant}};
  for (const auto& [name, space] : spaces) {
    if (!space_token.is(name)) continue;
    STITCH_ASSIGN(Variable declared, declared_variable(in_, space, is_extern, scope));
    function.variables.push_back(std::move(declared));
    return in_.expect(';');
  }
  return in_.fail(directive.line, fmt::format("unknown directive '{}'", directive.text));
}

Status Parser::location() {
  STITCH_ASSIGN(source_file_, in_.small_integer());
  STITCH_ASSIGN(source_line_, in_.small_integer());
  STITCH_TRY(in_.integer());
  if (!in_.accept(',')) return {};
  STITCH_TRY(in_.word("function_name"));
  STITCH_TRY(in_.word("label"));
  if (in_.accept('+')) STITCH_TRY(in_.integer());
  if (!in_.accept(',')) return {};
  STITCH_TRY(in_.word("inlined_at"));
  for (int i = 0; i < 3; ++i) STITCH_TRY(in_.integer());
  return {};
}

Status Parser::registers(Function& function, std::uint32_t scope) {
  STITCH_ASSIGN(const DeclaredType declared, declared_type(in_));
  if (declared.vector != 1) return in_.fail("vector registers are not supported");
  do {
    RegisterDeclaration result;
    result.type = declared.type;
    result.scope = scope;
    STITCH_ASSIGN(result.name, in_.word("register name"));
    if (in_.accept('<')) {
      STITCH_ASSIGN(result.count, in_.small_integer());
      if (result.count > (1U << 24)) return in_.fail("too many registers");
      STITCH_TRY(in_.expect('>'));
    }
    function.registers.push_back(result);
  } while (in_.accept(','));
  return in_.expect(';');
}

Status Parser::label(Function& function, std::uint32_t scope) {
  Label result;
  result.name = in_.take().text;
  result.scope = scope;
  result.statement = function.statements.size();
  in_.take();
  if (in_.accept(".callprototype")) return in_.skip_to_semicolon();
  if (in_.accept(".branchtargets")) {
    do {
      STITCH_ASSIGN(const std::string_view target, in_.word("label"));
      result.targets.push_back(target);
    } while (in_.accept(','));
    STITCH_TRY(in_.expect(';'));
  }
  function.labels.push_back(std::move(result));
  return {};
}

Status Parser::instruction(Function& function, std::uint32_t scope) {
  Statement statement;
  statement.line = in_.peek().line;
  statement.scope = scope;
  statement.source_file = source_file_;
  statement.source_line = source_line_;
  if (in_.accept('@')) {
    statement.guard_inverted = in_.accept('!');
    STITCH_ASSIGN(statement.guard, in_.word("predicate register"));
  }
  STITCH_ASSIGN(statement.opcode, in_.word("instruction"));
  while (!in_.peek().is(';')) {
    STITCH_ASSIGN(Operand next, read_operand(in_));
    statement.operands.push_back(std::move(next));
    if (!in_.accept(',') && !in_.peek().is(';')) {
      return in_.fail(fmt::format("expected ',' or ';' before '{}'", in_.peek().text));
    }
  }
  in_.take();
  function.statements.push_back(std::move(statement));
  return {};
}

}  // namespace

Result<Module> parse(std::string_view source) { return Parser(source).module(); }

}  // namespace stitch::emulator::ptx

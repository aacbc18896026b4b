#include "costmodel/machine_instruction.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace stitch::costmodel {
namespace {

struct PipeRow {
  std::string_view prefix;
  Pipe pipe;
};
/// The first row whose prefix the name has.
constexpr PipeRow pipe_table[] = {
    {"FSWZADD", Pipe::floating},  {"FADD", Pipe::floating},     {"FMUL", Pipe::floating},
    {"FFMA", Pipe::floating},     {"FSETP", Pipe::floating},    {"FSET", Pipe::floating},
    {"FSEL", Pipe::floating},     {"FMNMX", Pipe::floating},    {"FCHK", Pipe::floating},
    {"F2FP", Pipe::half},         {"HMMA", Pipe::tensor},       {"HGMMA", Pipe::tensor},
    {"IMMA", Pipe::tensor},       {"BMMA", Pipe::tensor},       {"IGMMA", Pipe::tensor},
    {"DMMA", Pipe::tensor},       {"QGMMA", Pipe::tensor},      {"HADD2", Pipe::half},
    {"HMUL2", Pipe::half},        {"HFMA2", Pipe::half},        {"HSET", Pipe::half},
    {"HMNMX2", Pipe::half},       {"DADD", Pipe::wide},         {"DMUL", Pipe::wide},
    {"DFMA", Pipe::wide},         {"DSETP", Pipe::wide},        {"MUFU", Pipe::special},
    {"I2FP", Pipe::integer},      {"I2F", Pipe::special},       {"F2IP", Pipe::half},
    {"F2I", Pipe::special},       {"F2F", Pipe::special},       {"FRND", Pipe::special},
    {"POPC", Pipe::special},      {"FLO", Pipe::special},       {"BREV", Pipe::special},
    {"LDGDEPBAR", Pipe::control}, {"LDGSTS", Pipe::memory},     {"LDG", Pipe::memory},
    {"STG", Pipe::memory},        {"LDL", Pipe::memory},        {"STL", Pipe::memory},
    {"REDUX", Pipe::integer},     {"RED", Pipe::memory},        {"ATOMS", Pipe::shared},
    {"ATOM", Pipe::memory},       {"CCTL", Pipe::memory},       {"UBLKCP", Pipe::memory},
    {"UTMA", Pipe::memory},       {"LDSM", Pipe::shared},       {"LDS", Pipe::shared},
    {"STSM", Pipe::shared},       {"STS", Pipe::shared},        {"SHFL", Pipe::shared},
    {"MATCH", Pipe::shared},      {"ARRIVES", Pipe::shared},    {"SYNCS", Pipe::shared},
    {"LDC", Pipe::uniform},       {"S2", Pipe::uniform},        {"CS2R", Pipe::uniform},
    {"R2UR", Pipe::uniform},      {"UCGABAR", Pipe::control},   {"U", Pipe::uniform},
    {"VOTE", Pipe::integer},      {"IADD", Pipe::integer},      {"IMAD", Pipe::integer},
    {"IDP", Pipe::integer},       {"IABS", Pipe::integer},      {"IMNMX", Pipe::integer},
    {"VI", Pipe::integer},        {"ISETP", Pipe::integer},     {"ISET", Pipe::integer},
    {"LEA", Pipe::integer},       {"LOP", Pipe::integer},       {"PLOP3", Pipe::integer},
    {"SHF", Pipe::integer},       {"SHL", Pipe::integer},       {"SHR", Pipe::integer},
    {"PRMT", Pipe::integer},      {"SEL", Pipe::integer},       {"MOV", Pipe::integer},
    {"BMSK", Pipe::integer},      {"SGXT", Pipe::integer},      {"P2R", Pipe::integer},
    {"QSPC", Pipe::integer},      {"R2P", Pipe::integer},       {"I2I", Pipe::integer},
    {"BAR", Pipe::control},       {"BRA", Pipe::control},       {"BRX", Pipe::control},
    {"JM", Pipe::control},        {"EXIT", Pipe::control},      {"BSSY", Pipe::control},
    {"BSYNC", Pipe::control},     {"BREAK", Pipe::control},     {"BMOV", Pipe::control},
    {"CALL", Pipe::control},      {"RET", Pipe::control},       {"WARPSYNC", Pipe::control},
    {"NOP", Pipe::control},       {"DEPBAR", Pipe::control},    {"MEMBAR", Pipe::control},
    {"ERRBAR", Pipe::control},    {"YIELD", Pipe::control},     {"NANOSLEEP", Pipe::control},
    {"FENCE", Pipe::control},     {"BPT", Pipe::control},       {"ACQ", Pipe::control},
    {"PREEXIT", Pipe::control},   {"CGAERRBAR", Pipe::control}, {"ENDCOLLECTIVE", Pipe::control},
    {"WARPGROUP", Pipe::control}, {"ELECT", Pipe::control},     {"LD", Pipe::memory},
    {"ST", Pipe::memory},
};

struct OperationRow {
  unsigned bits;  ///< the lowest nine of the encoding; the next three are the form of its operands
  std::string_view name;
};
/// In ascending order of their bits.
constexpr OperationRow operation_table[] = {
    {0x002, "MOV"},         {0x003, "P2R"},       {0x004, "R2P"},           {0x005, "CS2R"},      {0x006, "VOTE"},
    {0x007, "SEL"},         {0x008, "FSEL"},      {0x009, "FMNMX"},         {0x00a, "FSET"},      {0x00b, "FSETP"},
    {0x00c, "ISETP"},       {0x00f, "VIMNMX3"},   {0x010, "IADD3"},         {0x011, "LEA"},       {0x012, "LOP3"},
    {0x013, "IABS"},        {0x016, "PRMT"},      {0x017, "IMNMX"},         {0x019, "SHF"},       {0x01a, "SGXT"},
    {0x01b, "BMSK"},        {0x01c, "PLOP3"},     {0x01f, "PLOP3"},         {0x020, "FMUL"},      {0x021, "FADD"},
    {0x023, "FFMA"},        {0x024, "IMAD"},      {0x025, "IMAD"},          {0x026, "IDP"},       {0x027, "IMAD"},
    {0x028, "DMUL"},        {0x029, "DADD"},      {0x02a, "DSETP"},         {0x02b, "DFMA"},      {0x02d, "PREEXIT"},
    {0x02e, "ACQBULK"},     {0x02f, "ELECT"},     {0x030, "HADD2"},         {0x031, "HFMA2"},     {0x032, "HMUL2"},
    {0x033, "HSET2"},       {0x034, "HSETP2"},    {0x035, "HFMA2"},         {0x036, "VIADD"},     {0x037, "IMMA"},
    {0x03b, "LDSM"},        {0x03c, "HMMA"},      {0x03d, "BMMA"},          {0x03e, "F2FP"},      {0x03f, "DMMA"},
    {0x040, "HMNMX2"},      {0x043, "F2IP"},      {0x044, "STSM"},          {0x045, "I2FP"},      {0x046, "VIADDMNMX"},
    {0x048, "VIMNMX"},      {0x04a, "UVIMNMX"},   {0x051, "UFSEL"},         {0x053, "UFSETP"},    {0x054, "UFADD"},
    {0x055, "UFFMA"},       {0x056, "UFMUL"},     {0x05e, "UI2FP"},         {0x076, "FMNMX3"},    {0x082, "UMOV"},
    {0x085, "UIMNMX"},      {0x086, "VOTEU"},     {0x087, "USEL"},          {0x08c, "UISETP"},    {0x090, "UIADD3"},
    {0x091, "ULEA"},        {0x092, "ULOP3"},     {0x097, "UIADD3"},        {0x099, "USHF"},      {0x09a, "USGXT"},
    {0x09b, "UBMSK"},       {0x09c, "UPLOP3"},    {0x0a4, "UIMAD"},         {0x0a5, "UIMAD"},     {0x0b9, "ULDC"},
    {0x0bd, "UFLO"},        {0x0ca, "R2UR"},      {0x100, "FLO"},           {0x101, "BREV"},      {0x102, "FCHK"},
    {0x104, "F2F"},         {0x105, "F2I"},       {0x106, "I2F"},           {0x107, "FRND"},      {0x108, "MUFU"},
    {0x109, "POPC"},        {0x110, "F2F"},       {0x112, "I2F"},           {0x113, "FRND"},      {0x118, "NOP"},
    {0x119, "S2R"},         {0x11a, "DEPBAR"},    {0x11b, "ENDCOLLECTIVE"}, {0x11d, "BAR"},       {0x141, "BSYNC"},
    {0x142, "BREAK"},       {0x144, "CALL"},      {0x145, "BSSY"},          {0x146, "YIELD"},     {0x147, "BRA"},
    {0x148, "WARPSYNC"},    {0x149, "BRX"},       {0x14d, "EXIT"},          {0x150, "RET"},       {0x155, "BMOV"},
    {0x156, "BMOV"},        {0x15c, "BPT"},       {0x15d, "NANOSLEEP"},     {0x180, "LD"},        {0x181, "LDG"},
    {0x182, "LDC"},         {0x183, "LDL"},       {0x184, "LDS"},           {0x185, "ST"},        {0x186, "STG"},
    {0x187, "STL"},         {0x188, "STS"},       {0x189, "SHFL"},          {0x18a, "ATOM"},      {0x18b, "ATOM"},
    {0x18c, "ATOMS"},       {0x18d, "ATOMS"},     {0x18e, "REDG"},          {0x18f, "CCTL"},      {0x192, "MEMBAR"},
    {0x1a1, "MATCH"},       {0x1a2, "ATOM"},      {0x1a3, "ATOMG"},         {0x1a6, "REDG"},      {0x1a7, "SYNCS"},
    {0x1a8, "ATOMG"},       {0x1a9, "ATOMG"},     {0x1aa, "QSPC"},          {0x1ab, "ERRBAR"},    {0x1ac, "LDCU"},
    {0x1ae, "LDGSTS"},      {0x1af, "LDGDEPBAR"}, {0x1b0, "ARRIVES"},       {0x1b1, "SYNCS"},     {0x1b2, "SYNCS"},
    {0x1b4, "UTMALDG"},     {0x1b5, "UTMASTG"},   {0x1b7, "UTMACMDFLUSH"},  {0x1b9, "UTMACCTL"},  {0x1ba, "UBLKCP"},
    {0x1c2, "R2UR"},        {0x1c3, "S2UR"},      {0x1c4, "REDUX"},         {0x1c5, "WARPGROUP"}, {0x1c6, "FENCE"},
    {0x1c7, "UCGABAR_ARV"}, {0x1f0, "HGMMA"},     {0x1f1, "IGMMA"},         {0x1f3, "QGMMA"},
};

constexpr std::int64_t instruction_bytes = 16;
constexpr int blackwell = 100;  // the first architecture that has another operation in the place of one of these
constexpr int hopper = 90;

std::string_view name_of(unsigned form, int architecture) {
  if (form == 0xdc7) return "UCGABAR_WAIT";
  const unsigned bits = form & 0x1FF;
  if (bits == 0x035 && architecture >= blackwell) return "IADD";
  if (bits == 0x18e && architecture < hopper) return "RED";
  const auto row = std::lower_bound(std::begin(operation_table), std::end(operation_table), bits,
                                    [](const OperationRow& one, unsigned wanted) { return one.bits < wanted; });
  return row != std::end(operation_table) && row->bits == bits ? row->name : std::string_view();
}

/// Bytes of a lane by bits 73 to 75, which are a size for what loads and stores and a type for what is atomic.
int width_of(const MachineInstruction& one, unsigned form, unsigned size, int architecture) {
  constexpr int sizes[] = {1, 1, 2, 2, 4, 8, 16, 16};
  constexpr int atomics[] = {4, 4, 8, 4, 4, 8, 8, 4};   // u32 s32 u64 f32 f16x2 s64 f64
  constexpr int integers[] = {4, 4, 8, 8, 4, 4, 4, 4};  // since Hopper: u32 s32 u64 s64
  constexpr int floats[] = {4, 4, 8, 16, 4, 4, 4, 8};   // and f32 f32x2 f32x4 … f64 of operations of their own
  const unsigned bits = form & 0x1FF;
  if (bits == 0x1a2 || bits == 0x1a3 || bits == 0x1a6) return floats[size];
  if (one.name.starts_with("ATOM") || one.name.starts_with("RED"))
    return architecture >= hopper ? integers[size] : atomics[size];
  const bool sized = one.is_load() || one.is_local() || one.name == "STG" || one.name == "ST" || one.name == "LDS" ||
                     one.name == "STS";
  return sized ? sizes[size] : 4;
}

/// Where a branch goes: behind itself plus a signed number of words of 4 bytes, of 48 bits until Hopper, which has
/// eight lower ones in another place.
std::int64_t target_of(std::int64_t address, std::uint64_t low, std::uint64_t high, int architecture) {
  std::uint64_t words = (low >> 34) | ((high & 0x3FFFF) << 30);
  int width = 48;
  if (architecture >= hopper) {
    words = (words << 8) | ((low >> 16) & 0xFF);
    width = 56;
  }
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const auto offset = std::int64_t((words ^ sign) - sign);
  return address + instruction_bytes + offset * 4;
}

}  // namespace

std::string_view to_string(Pipe pipe) {
  constexpr std::string_view names[] = {"floating", "half",   "wide",    "integer", "special", "memory",
                                        "shared",   "tensor", "uniform", "control", "other"};
  static_assert(std::size(names) == pipe_count);
  return names[static_cast<std::size_t>(pipe)];
}

Pipe pipe_of(std::string_view operation) {
  const std::string_view name = operation.substr(0, operation.find('.'));
  for (const PipeRow& row : pipe_table) {
    if (name.starts_with(row.prefix)) return row.pipe;
  }
  return Pipe::other;
}

void read_control(std::uint64_t high, MachineInstruction& instruction) {
  instruction.stall = (high >> 41) & 0xF;
  instruction.sets_result = (high >> 46) & 0x7;
  instruction.sets_read = (high >> 49) & 0x7;
  instruction.waits = (high >> 52) & 0x3F;
}

Result<std::vector<MachineInstruction>> decode_instructions(std::string_view code, int architecture) {
  if (code.empty() || code.size() % instruction_bytes != 0)
    return make_error(ErrorKind::parse, "machine code: {} bytes are no number of instructions of 16", code.size());
  std::vector<MachineInstruction> instructions;
  for (std::size_t at = 0; at < code.size(); at += instruction_bytes) {
    std::uint64_t low = 0, high = 0;
    std::memcpy(&low, code.data() + at, 8);
    std::memcpy(&high, code.data() + at + 8, 8);
    const unsigned form = low & 0xFFF;
    MachineInstruction one;
    one.address = at;
    one.name = name_of(form, architecture);
    one.pipe = one.name.empty() ? Pipe::other : pipe_of(one.name);
    one.width = width_of(one, form, (high >> 9) & 7, architecture);
    one.predicated = ((low >> 12) & 0xF) != 7;                     // 7: the predicate that always holds
    one.passes_l1 = one.name == "LDG" && ((high >> 13) & 7) == 7;  // 0: weak, 4: of constant memory
    if (one.name == "DEPBAR" && ((low >> 47) & 1) != 0) {
      one.waits_for_all_but = (low >> 38) & 0x3F;
      one.waits_on = (low >> 44) & 0x7;
    }
    if (one.name == "BRA") one.target = target_of(one.address, low, high, architecture);
    read_control(high, one);
    instructions.push_back(one);
  }
  return instructions;
}

}  // namespace stitch::costmodel

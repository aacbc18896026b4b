#include "emulator/decode/special_register.h"

#include <algorithm>
#include <array>

namespace stitch::emulator {
namespace {

using R = SpecialRegister;
constexpr std::array special_names = std::to_array<SpecialName>({
    {"%tid.x", R::tid_x, Width::b32},
    {"%tid.y", R::tid_y, Width::b32},
    {"%tid.z", R::tid_z, Width::b32},
    {"%ntid.x", R::ntid_x, Width::b32},
    {"%ntid.y", R::ntid_y, Width::b32},
    {"%ntid.z", R::ntid_z, Width::b32},
    {"%ctaid.x", R::ctaid_x, Width::b32},
    {"%ctaid.y", R::ctaid_y, Width::b32},
    {"%ctaid.z", R::ctaid_z, Width::b32},
    {"%nctaid.x", R::nctaid_x, Width::b32},
    {"%nctaid.y", R::nctaid_y, Width::b32},
    {"%nctaid.z", R::nctaid_z, Width::b32},
    {"%laneid", R::laneid, Width::b32},
    {"%warpid", R::warpid, Width::b32},
    {"%nwarpid", R::nwarpid, Width::b32},
    {"%smid", R::smid, Width::b32},
    {"%nsmid", R::nsmid, Width::b32},
    {"%gridid", R::gridid, Width::b64},
    {"%clusterid.x", R::clusterid_x, Width::b32},
    {"%clusterid.y", R::clusterid_y, Width::b32},
    {"%clusterid.z", R::clusterid_z, Width::b32},
    {"%nclusterid.x", R::nclusterid_x, Width::b32},
    {"%nclusterid.y", R::nclusterid_y, Width::b32},
    {"%nclusterid.z", R::nclusterid_z, Width::b32},
    {"%cluster_ctaid.x", R::cluster_ctaid_x, Width::b32},
    {"%cluster_ctaid.y", R::cluster_ctaid_y, Width::b32},
    {"%cluster_ctaid.z", R::cluster_ctaid_z, Width::b32},
    {"%cluster_nctaid.x", R::cluster_nctaid_x, Width::b32},
    {"%cluster_nctaid.y", R::cluster_nctaid_y, Width::b32},
    {"%cluster_nctaid.z", R::cluster_nctaid_z, Width::b32},
    {"%cluster_ctarank", R::cluster_ctarank, Width::b32},
    {"%cluster_nctarank", R::cluster_nctarank, Width::b32},
    {"%is_explicit_cluster", R::is_explicit_cluster, Width::predicate},
    {"%lanemask_eq", R::lanemask_eq, Width::b32},
    {"%lanemask_le", R::lanemask_le, Width::b32},
    {"%lanemask_lt", R::lanemask_lt, Width::b32},
    {"%lanemask_ge", R::lanemask_ge, Width::b32},
    {"%lanemask_gt", R::lanemask_gt, Width::b32},
    {"%clock", R::clock, Width::b32},
    {"%clock_hi", R::clock_hi, Width::b32},
    {"%clock64", R::clock64, Width::b64},
    {"%globaltimer", R::globaltimer, Width::b64},
    {"%globaltimer_lo", R::globaltimer_lo, Width::b32},
    {"%globaltimer_hi", R::globaltimer_hi, Width::b32},
    {"%dynamic_smem_size", R::dynamic_smem_size, Width::b32},
    {"%total_smem_size", R::total_smem_size, Width::b32},
    {"%aggr_smem_size", R::aggr_smem_size, Width::b32},
    {"%current_graph_exec", R::current_graph_exec, Width::b64},
    // The driver's to define; of these cooperative groups know (cooperative_groups/details/driver_abi.h).
    {"%envreg0", R::driver_word, Width::b32},
    {"%envreg1", R::grid_workspace_high, Width::b32},
    {"%envreg2", R::grid_workspace_low, Width::b32},
});

}  // namespace

const SpecialName* find_special_register(std::string_view name) {
  const auto* found = std::ranges::find(special_names, name, &SpecialName::name);
  return found == special_names.end() ? nullptr : found;
}

}  // namespace stitch::emulator

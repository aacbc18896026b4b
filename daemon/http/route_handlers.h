#pragma once

#include "daemon/http/call.h"

// One function per row of the route table (daemon/http/routes.cpp).
namespace stitch::daemon::handlers {

/// What `lookup` would answer, where that is kept and nothing has been committed since. Never blocks.
std::optional<http::Response> lookup_at_once(Service& service, const http::Request& request);

http::Reply health(const Call& call);
http::Reply version(const Call& call);
http::Reply metrics(const Call& call);
http::Reply lookup(const Call& call);
http::Reply submit_fragment(const Call& call);
http::Reply submit_model(const Call& call);
http::Reply outline_program(const Call& call);
http::Reply get_job(const Call& call);
http::Reply cancel_job(const Call& call);
http::Reply job_events(const Call& call);
http::Reply all_events(const Call& call);
http::Reply promotions(const Call& call);

http::Reply list_fragments(const Call& call);
http::Reply get_fragment(const Call& call);
http::Reply get_fault(const Call& call);
http::Reply list_models(const Call& call);
http::Reply get_model(const Call& call);
http::Reply list_programs(const Call& call);
http::Reply get_program(const Call& call);
http::Reply list_jobs(const Call& call);
http::Reply list_plans(const Call& call);
http::Reply get_plan(const Call& call);
http::Reply get_artifact(const Call& call);
http::Reply list_devices(const Call& call);
http::Reply list_cost_models(const Call& call);
http::Reply report_cost_models(const Call& call);

}  // namespace stitch::daemon::handlers

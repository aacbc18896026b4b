#include "cli/explain/page.h"

#include <fmt/format.h>

#include "cli/explain/fragment_drawing.h"
#include "cli/explain/layout.h"
#include "cli/explain/outline_drawing.h"
#include "cli/explain/pipeline_timeline.h"
#include "cli/explain/svg.h"

namespace stitch::cli {
namespace {

/// One drawing may take this long; one that takes longer is folded and tried again.
constexpr double seconds_per_drawing = 10;

constexpr std::string_view style_sheet = R"(
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#666;--line:#999;--paper:#fff;--panel:#f5f5f5;--rule:#ddd;
--box:#fff;--reduction:#ffe9b8;--boundary:#dcdcdc;--tensor:#eef3f7;--folded:#f1ecfa;--frame-light:96%}
@media (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#a5a5a5;--line:#8a8a8a;--paper:#161616;--panel:#202020;
--rule:#3a3a3a;--box:#262626;--reduction:#54451d;--boundary:#454545;--tensor:#223038;--folded:#332c44;--frame-light:14%}}
body{font:14px system-ui,sans-serif;margin:2em;background:var(--paper);color:var(--ink)}
a{color:inherit}pre{background:var(--panel);padding:1em;overflow:auto;font-size:12px}
.drawing{overflow:auto;max-height:90vh;padding:12px;border:1px solid var(--rule);margin:1em 0}
table{border-collapse:collapse}td,th{border:1px solid var(--rule);padding:.2em .6em;text-align:left}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
summary{cursor:pointer;margin:.4em 0}.missing{color:var(--soft)}
)";

/// Writes the page part by part.
class PageWriter {
 public:
  PageWriter(const std::vector<FragmentExplanation>& fragments, const std::vector<Product>& products,
             ProcessLauncher& launcher)
      : fragments_(fragments), products_(products), launcher_(launcher) {}

  Page write(std::string_view title, const tuning::ModelOutline* outline) {
    html_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{0}</title>"
        "<style>{1}{2}</style></head><body>\n<h1>{0}</h1>\n",
        escape_xml(title), page_style(), svg_style());
    if (!fragments_.empty()) write_summary();
    if (outline != nullptr && outline->parts.size() > 1) {
      html_ += "<h2>the model, equal parts once</h2>\n";
      if (leaves_out_flows(*outline)) {
        html_ +=
            "<p>Arrows show the input that a part waits for; what else it reads is named when it is pointed at.</p>\n";
      }
      write_drawing({draw_outline(*outline, fragments_)});
    }
    for (const FragmentExplanation& fragment : fragments_) write_fragment(fragment);
    if (!products_.empty()) write_products();
    html_ += "</body></html>\n";
    return {std::move(html_), std::move(undrawn_)};
  }

 private:
  void write_summary() {
    html_ +=
        "<table><tr><th>fragment</th><th class=\"number\">runs</th><th class=\"number\">operators</th>"
        "<th class=\"number\">kernels</th><th class=\"number\">predicted us</th>"
        "<th class=\"number\">unfused kernels</th><th class=\"number\">unfused us</th></tr>\n";
    for (const FragmentExplanation& fragment : fragments_) {
      html_ += fmt::format(
          "<tr><td><a href=\"#f{}\">{}</a></td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
          "<td class=\"number\">{}</td><td class=\"number\">{:.2f}</td><td class=\"number\">{}</td>"
          "<td class=\"number\">{:.2f}</td></tr>\n",
          fragment.key.hex(), escape_xml(fragment.name), fragment.occurrences, graph::operator_count(fragment.graph),
          fragment.kernels.size(), fragment.predicted_us, fragment.unfused_kernels, fragment.unfused_us);
    }
    html_ += "</table>\n";
  }

  /// The first of the drawings that can be laid out: they show the same, with less and less detail.
  void write_drawing(const std::vector<Drawing>& drawings) {
    std::optional<Error> why;
    for (const Drawing& drawing : drawings) {
      const Result<Layout> layout = lay_out(drawing, launcher_, deadline_in(seconds_per_drawing));
      if (layout) {
        html_ += fmt::format("<div class=\"drawing\">{}</div>\n", to_svg(drawing, *layout));
        return;
      }
      why = layout.error();
      if (why->kind == ErrorKind::unavailable) break;
    }
    html_ += fmt::format("<p class=\"missing\">not drawn: {}</p>\n", escape_xml(why->message));
    if (!undrawn_) undrawn_ = std::move(why);
  }

  void write_kernels(const FragmentExplanation& fragment) {
    html_ +=
        "<table><tr><th>kernel</th><th>computes</th><th class=\"number\">predicted us</th><th>bound by</th>"
        "<th class=\"number\">bytes</th><th class=\"number\">blocks</th><th class=\"number\">threads</th>"
        "<th class=\"number\">registers</th><th class=\"number\">shared bytes</th></tr>\n";
    for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
      const KernelExplanation& kernel = fragment.kernels[k];
      html_ += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"number\">{:.2f}</td><td>{}</td><td class=\"number\">{}</td>"
          "<td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
          "<td class=\"number\">{}</td></tr>\n",
          k, escape_xml(kernel.description), kernel.score.us, escape_xml(kernel.score.binding),
          bytes_text(kernel.bytes), kernel.blocks, kernel.threads, kernel.registers, kernel.shared_bytes);
    }
    html_ += "</table>\n";
  }

  void write_fragment(const FragmentExplanation& fragment) {
    html_ += fmt::format("<h2 id=\"f{}\">{}</h2>\n", fragment.key.hex(), escape_xml(fragment.name));
    write_drawing({draw_fragment(fragment), draw_fragment(fragment, 0)});
    write_kernels(fragment);
    html_ +=
        fmt::format("<details><summary>in words</summary><pre>{}</pre></details>\n", escape_xml(to_text(fragment)));
    for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
      if (!fragment.kernels[k].report) continue;
      html_ += fmt::format("<details><summary>source of kernel {}</summary><pre>{}</pre></details>\n", k,
                           escape_xml(fragment.kernels[k].report->source));
    }
  }

  void write_products() {
    html_ +=
        "<h2>products, convolutions and attentions, by kernels of ours</h2>\n<p>Of each the first turns of a block: "
        "a tile on its way to its place in shared memory, there and waiting, in use.</p>\n";
    for (const Product& product : products_) {
      html_ += fmt::format("<h3>{} × {}</h3>\n<pre>{}</pre>\n", product.count, escape_xml(product.name),
                           escape_xml(to_text(product)));
      if (!product.why_none.empty()) continue;
      const std::string drawn = to_svg(timeline_of(summary_of(product).turn));
      if (!drawn.empty()) html_ += fmt::format("<div class=\"drawing\">{}</div>\n", drawn);
    }
  }

  const std::vector<FragmentExplanation>& fragments_;
  const std::vector<Product>& products_;
  ProcessLauncher& launcher_;
  std::string html_;
  std::optional<Error> undrawn_;
};

}  // namespace

std::string_view page_style() { return style_sheet; }

Page to_page(std::string_view title, const tuning::ModelOutline* outline,
             const std::vector<FragmentExplanation>& fragments, const std::vector<Product>& products,
             ProcessLauncher& launcher) {
  return PageWriter(fragments, products, launcher).write(title, outline);
}

}  // namespace stitch::cli

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mem_picture.h"
#include "tools/tool.h"

#define WIDTH     1000
#define LEFT      80
#define CURVE_H   260
#define ROW_H     16
#define MAX_ROWS  400
#define PAGE_SPAN (1ull << 30) /* addresses further apart than this get a gap */

/* Neighbours in number are far apart in hue (the golden angle), and every other one is darker. */
static const char *colour(uint32_t owner)
{
	static _Thread_local char text[8];
	const double hue = __builtin_fmod((double)owner * 137.508, 360) / 60;
	const double top = owner % 2 ? 150 : 215, floor = top * 0.35;
	const double up = floor + (top - floor) * (hue - __builtin_floor(hue));
	const double down = floor + top - up;
	const double rgb[6][3] = {{top, up, floor},   {down, top, floor}, {floor, top, up},
				  {floor, down, top}, {up, floor, top},   {top, floor, down}};
	const double *c = rgb[(unsigned)hue % 6];

	snprintf(text, sizeof(text), "#%02x%02x%02x", (unsigned)c[0], (unsigned)c[1],
		 (unsigned)c[2]);
	return text;
}

static void escaped(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", out);
		else if (*s == '&')
			fputs("&amp;", out);
		else if (*s == '"')
			fputs("&quot;", out);
		else
			fputc(*s, out);
	}
}

static double scale(uint64_t v, uint64_t of, double to)
{
	return of ? (double)v * to / (double)of : 0;
}

/* What one owner had after every point, on top of what those before it had. */
static void layer(const struct ledger_view *v, uint32_t owner, uint64_t *base, FILE *out)
{
	double w = WIDTH - LEFT - 10, h = CURVE_H - 50, y0 = CURVE_H - 30;
	uint64_t live = 0;

	fprintf(out, "<path d=\"M%d %.1f", LEFT, y0);
	for (uint32_t i = 0; i < v->n_points; i++) {
		if (v->points[i].owner == owner)
			live += (uint64_t)v->points[i].change;
		fprintf(out, " H%.2f V%.2f", LEFT + scale(v->points[i].ns, v->end_ns, w),
			y0 - scale(base[i] + live, v->peak, h));
	}
	/* And back along the top of those before it. */
	fprintf(out, " H%d", WIDTH - 10);
	for (uint32_t i = v->n_points; i-- > 0;)
		fprintf(out, " V%.2f H%.2f", y0 - scale(base[i], v->peak, h),
			LEFT + scale(v->points[i].ns, v->end_ns, w));
	fprintf(out, " V%.1f Z\" fill=\"%s\"><title>", y0, colour(owner));
	escaped(out, v->usage[owner].owner);
	fputs("</title></path>\n", out);
	live = 0;
	for (uint32_t i = 0; i < v->n_points; i++) {
		if (v->points[i].owner == owner)
			live += (uint64_t)v->points[i].change;
		base[i] += live;
	}
}

/* Owners one upon the other, so that the outline is the whole. */
static bool curve(const struct ledger_view *v, FILE *out)
{
	double w = WIDTH - LEFT - 10, h = CURVE_H - 50, y0 = CURVE_H - 30;
	uint64_t *base = calloc(v->n_points + 1, sizeof(*base));

	if (!base)
		return false;
	fprintf(out,
		"<text x=\"%d\" y=\"14\">footprint over time, by owner, %.3f s; peak %s</text>\n",
		LEFT, (double)v->end_ns / 1e9, tool_bytes(v->peak));
	for (uint32_t i = 0; i < v->n_usage; i++)
		if (v->usage[i].is_owner)
			layer(v, i, base, out);
	free(base);
	fprintf(out, "<path d=\"M%d %.1f V%.1f H%d\" fill=\"none\" stroke=\"#000\"/>\n", LEFT,
		y0 - h, y0, WIDTH - 10);
	for (int i = 0; i <= 4; i++) {
		double x = LEFT + w * i / 4, y = y0 - h * i / 4;

		fprintf(out,
			"<path d=\"M%.1f %.1f v4\" stroke=\"#000\"/><text x=\"%.1f\" y=\"%.1f\" "
			"text-anchor=\"%s\">%.3f s</text>\n",
			x, y0, x, y0 + 16, i == 4 ? "end" : "middle",
			(double)v->end_ns / 1e9 * i / 4);
		fprintf(out,
			"<path d=\"M%d %.1f h-4\" stroke=\"#000\"/><text x=\"%d\" y=\"%.1f\" "
			"text-anchor=\"end\">%s</text>\n",
			LEFT, y, LEFT - 6, y + 4, tool_bytes(v->peak / 4 * (uint64_t)i));
	}
	return true;
}

static int by_va(const void *a, const void *b)
{
	const struct view_bo *x = *(const struct view_bo *const *)a;
	const struct view_bo *y = *(const struct view_bo *const *)b;

	return x->va < y->va ? -1 : x->va > y->va;
}

/* One row per buffer in address order; a bar as long as its size to the square root, so that a page
 * beside a gigabyte is still seen; the dead are hollow. */
static void map(const struct ledger_view *v, const struct view_bo *const *bos, uint32_t n, int y,
		FILE *out)
{
	uint64_t largest = 1;
	double w = 420;

	for (uint32_t i = 0; i < n; i++)
		if (bos[i]->size > largest)
			largest = bos[i]->size;
	fprintf(out,
		"<text x=\"%d\" y=\"%d\">address space: %u of %u buffers, length by square root; "
		"hollow: freed</text>\n",
		LEFT, y - 6, n, v->n_bos);
	for (uint32_t i = 0; i < n; i++, y += ROW_H) {
		const struct view_bo *b = bos[i];
		double len = __builtin_sqrt((double)b->size / (double)largest) * w;

		if (i && b->va - bos[i - 1]->va > PAGE_SPAN + bos[i - 1]->size)
			fprintf(out,
				"<path d=\"M%d %d H%d\" stroke=\"#999\" stroke-dasharray=\"4\"/>\n",
				LEFT, y + 1, WIDTH - 10);
		fprintf(out,
			"<rect x=\"190\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
			"stroke=\"%s\"/><text x=\"%d\" y=\"%d\">0x%" PRIx64
			"</text><text x=\"%.1f\" y=\"%d\">",
			y + 3, len < 1 ? 1 : len, ROW_H - 5, b->died_ns ? "none" : colour(b->owner),
			colour(b->owner), LEFT, y + 12, b->va, 196 + len, y + 12);
		escaped(out, v->usage[b->owner].owner);
		fprintf(out, ", %s</text>\n", tool_bytes(b->size));
	}
}

bool mem_picture_svg(const struct ledger_view *v, FILE *out)
{
	const struct view_bo **bos = calloc(v->n_bos + 1, sizeof(const struct view_bo *));
	uint32_t n = 0;
	int height;
	bool ok;

	if (!bos)
		return false;
	for (uint32_t i = 0; i < v->n_bos; i++)
		bos[n++] = &v->bos[i];
	qsort(bos, n, sizeof(*bos), by_va);
	if (n > MAX_ROWS)
		n = MAX_ROWS;
	height = CURVE_H + 40 + (int)n * ROW_H;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"monospace\" font-size=\"11\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, height);
	ok = curve(v, out);
	map(v, bos, n, CURVE_H + 30, out);
	fputs("</svg>\n", out);
	free(bos);
	return ok;
}

bool mem_picture_html(const struct ledger_view *v, FILE *out)
{
	bool ok;

	fprintf(out,
		"<!doctype html><meta charset=\"utf-8\"><title>memory of process %u</title>\n"
		"<body style=\"font-family:monospace\"><h1>memory of process %u</h1>\n",
		v->header.pid, v->header.pid);
	ok = mem_picture_svg(v, out);
	fputs("<table border=\"1\" cellpadding=\"3\"><tr><th>owner<th>live<th>peak<th>buffers"
	      "<th>allocations</tr>\n",
	      out);
	for (uint32_t i = 0; i < v->n_usage; i++) {
		const struct view_usage *u = &v->usage[i];

		if (!u->is_owner)
			continue;
		fputs("<tr><td>", out);
		escaped(out, u->owner);
		fprintf(out, "<td>%" PRIu64 "<td>%" PRIu64 "<td>%" PRIu64 "<td>%" PRIu64 "</tr>\n",
			u->live, u->peak, u->count, u->allocs);
	}
	fputs("</table></body>\n", out);
	return ok;
}

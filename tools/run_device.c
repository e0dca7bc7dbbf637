/* `barewave run` on the device. */
#include "tools/run_engine.h"

int run_engine_device(const struct run_options *o, const struct model *m, struct run_engine *out)
{
	(void)m;
	(void)out;
	return tool_fail("%s: this build evaluates with --cpu only", o->model_path);
}

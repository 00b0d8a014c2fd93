#include <longpole/auto.h>
